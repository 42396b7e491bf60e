"""Times and limits: those that contradict each other are refused, with a text that names both."""

import msgspec
import pytest
from mantamq.protocol.errors import LocalError
from mantamq.protocol.limits import BOUNDS, DEFAULT, Limits
from mantamq.protocol.timing import DEFAULT_TIMING, RULES, Rule, Timing


@pytest.mark.parametrize("rule", RULES, ids=Rule.text)
def test_times_that_break_a_rule_are_refused(rule: Rule) -> None:
    most = sum(getattr(DEFAULT_TIMING, name) for name in rule.less)
    with pytest.raises(LocalError) as wrong:
        Timing(**{rule.more: most - rule.equal})
    text = str(wrong.value)
    assert rule.why in text and all(name in text for name in (*rule.less, rule.more)) and str(most - rule.equal) in text


def test_a_lease_is_over_before_its_broker_is_evicted() -> None:
    for lease_ms, evict_ms in ((2750, 3000), (2000, 2250)):
        with pytest.raises(LocalError, match=r"lease_ms \+ heartbeat_ms < evict_ms.* must have stopped to serve"):
            Timing(lease_ms=lease_ms, evict_ms=evict_ms)
    assert Timing(lease_ms=2749).evict_ms == 3000


def test_all_that_is_broken_is_named_and_a_copy_is_looked_at_too() -> None:
    with pytest.raises(LocalError, match=r"broken_ms < suspect_ms.*; and .*broken_ms < evict_ms"):
        msgspec.structs.replace(DEFAULT_TIMING, broken_ms=10_000)


@pytest.mark.parametrize(("less", "more", "why"), BOUNDS)
def test_limits_that_exceed_others_are_refused(less: str, more: str, why: str) -> None:
    with pytest.raises(LocalError, match=f"{less} <= {more}.*: {why}"):
        msgspec.structs.replace(DEFAULT, **{less: getattr(DEFAULT, more) + 1})


def test_flow_control_goes_off_below_where_it_goes_on() -> None:
    for shares in ({"flow_stop": 0.6}, {"flow_resume": 0.9}, {"flow_give_up": 0.8}):
        with pytest.raises(LocalError, match="flow_resume <= flow_stop < flow_give_up"):
            Limits(**shares)


def test_a_client_s_silence_is_borne_for_longer_than_a_heartbeat() -> None:
    for wrong in ({"heartbeat_ms": (200, 100)}, {"patience_ms": 59_999}):
        with pytest.raises(LocalError, match=r"heartbeat_ms\[1\] <= patience_ms"):
            Limits(**wrong)
