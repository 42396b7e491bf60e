"""Requests that are kept until they are answered (`protocol/log/submitter.py`), with nothing around them."""

from mantamq.protocol.log.submitter import Submitter
from mantamq.protocol.wire.log_frames import Request, Results


def test_what_is_gathered_is_one_request_and_its_number_is_known_before():
    submitter = Submitter("b1.r0", 7)
    assert submitter.gathered() is None
    assert [submitter.gather("q#1", b"a"), submitter.gather("q#2", b"b")] == [1, 1]
    assert submitter.gathered() == Request("b1.r0", 7, 1, [("q#1", b"a"), ("q#2", b"b")])
    assert submitter.gathered() is None and submitter.gather("q#1", b"c") == 2


def test_a_request_of_its_own_takes_the_next_number_and_leaves_what_is_gathered():
    submitter = Submitter("b1", 7)
    submitter.gather("cluster", b"a")
    assert submitter.request([("q#1", b"b")]).number == 1
    gathered = submitter.gathered()
    assert gathered is not None and (gathered.number, gathered.parts) == (2, [("cluster", b"a")])


def test_what_has_no_answer_is_asked_again_in_the_same_order():
    submitter = Submitter("b1", 7)
    requests = [submitter.request([("q#1", bytes([n]))]) for n in range(4)]
    assert submitter.answered(Results(7, [2, 1])) == [requests[1], requests[0]]
    assert list(submitter.unanswered.values()) == requests[2:]


def test_an_answer_counts_once_and_for_its_own_incarnation_only():
    submitter = Submitter("b1", 7)
    request = submitter.request([("q#1", b"a")])
    assert submitter.answered(Results(6, [1])) == [] and submitter.unanswered
    assert submitter.answered(Results(7, [1, 1, 9])) == [request]
    assert submitter.answered(Results(7, [1])) == [] and not submitter.unanswered


def test_a_request_that_was_sent_is_not_changed_by_what_is_gathered_next():
    submitter = Submitter("b1", 7)
    submitter.gather("q#1", b"a")
    sent = submitter.gathered()
    submitter.gather("q#1", b"b")
    assert sent is not None and sent.parts == [("q#1", b"a")]


def test_a_request_is_patient_if_all_that_is_in_it_is():
    submitter = Submitter("b1.r0", 7)
    submitter.gather("q#1", b"accept", patient=True)
    submitter.gather("q#2", b"accept", patient=True)
    patient = submitter.gathered()
    submitter.gather("q#1", b"release")
    submitter.gather("q#1", b"accept", patient=True)
    hurried = submitter.gathered()
    submitter.gather("q#1", b"accept", patient=True)
    again = submitter.gathered()
    assert [request and request.patient for request in (patient, hurried, again)] == [True, False, True]
