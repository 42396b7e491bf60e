"""Who may ask, and who may change something."""

from __future__ import annotations

import base64

import pytest
from mantamq.management.http.access import COOKIE, Access, is_loopback
from mantamq.management.http.sessions import Sessions
from mantamq.management.http.wrong_tokens import GUESSES, WITHIN_S, WrongTokens
from mantamq.protocol.errors import LocalError

from .made_up_api import TOKEN, MadeUpApi

QUEUE = "/api/queues/%2F/q"


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def guarded() -> MadeUpApi:
    return MadeUpApi(access=Access(["10.0.0.5", "manta.example"], TOKEN), address="10.0.0.9")


def test_on_this_machine_everybody_may_where_there_is_no_token():
    api = MadeUpApi()
    assert api.http.get("/api/whoami").json()["name"] == "anybody"
    assert api.http.put(QUEUE, json={}, headers=basic("ann", "whatever")).status_code == 201
    assert api.deeds.done[0][1] == ("ann", "127.0.0.1")


def test_it_does_not_listen_elsewhere_without_a_token():
    with pytest.raises(LocalError, match="without a token"):
        Access(["127.0.0.1", "10.0.0.5"])
    with pytest.raises(LocalError, match="without a token"):
        Access(["0.0.0.0"])


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer"}, {"Authorization": f"Digest {TOKEN}"},
        {"Authorization": TOKEN}, {"Authorization": "Basic !!!"}, basic("ann", "wrong"), basic(TOKEN, ""),
        {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Bearer {TOKEN[:-1]}"}, {"Cookie": f"{COOKIE}=guess"},
        {"Authorization": "Bearer \u00ff"}, {"Cookie": f"{COOKIE}="},
    ],
)  # fmt: skip
@pytest.mark.parametrize(("method", "path"), [("GET", "/api/overview"), ("PUT", QUEUE), ("GET", "/api/no/such")])
def test_without_the_token_nobody_may_anything(method, path, headers):
    api = guarded()
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = api.http.request(method, path, headers=raw)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="mantamq"'
    assert answer.json()["error"] == "not_authorised"
    assert api.deeds.done == [] and api.watcher.seen == 0


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"Authorization": f"Bearer {TOKEN}"}, "holder of the token"),
        ({"Authorization": f"bearer   {TOKEN}"}, "holder of the token"),
        (basic("ann", TOKEN), "ann"), (basic("", TOKEN), "holder of the token"), (basic("a\x00\nb" * 100, TOKEN), None),
    ],
)  # fmt: skip
def test_with_the_token_everything(headers, name):
    api = guarded()
    assert api.http.put(QUEUE, json={}, headers=headers).status_code == 201
    told = api.deeds.done[0][1]
    assert told.address == "10.0.0.9"
    assert told.name == name if name else (len(told.name) == 100 and told.name.isprintable())


def test_a_script_in_a_page_is_not_asked_for_a_password():
    answer = guarded().http.get("/api/overview", headers={"Sec-Fetch-Mode": "cors"})
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_token_that_is_not_ascii_can_be_presented():
    api = MadeUpApi(access=Access(token="gr\u00fc\u00dfe"))
    assert api.http.get("/api/whoami", headers=basic("ann", "gr\u00fc\u00dfe")).status_code == 200
    bearer = {"Authorization": b"Bearer " + "gr\u00fc\u00dfe".encode()}
    assert api.http.get("/api/whoami", headers=bearer).status_code == 200


def test_a_login_is_as_good_as_the_token_until_the_logout():
    api = guarded()
    assert api.http.post("/login", json={"token": "wrong"}).status_code == 401
    assert COOKIE not in api.http.cookies
    answer = api.http.post("/login", json={"token": TOKEN, "name": "ann"})
    assert answer.status_code == 204
    set_cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in set_cookie and "samesite=strict" in set_cookie and TOKEN not in set_cookie
    assert api.http.get("/api/whoami").json()["name"] == "ann"
    assert api.http.put(QUEUE, json={}).status_code == 201
    kept = api.http.cookies[COOKIE]
    assert api.http.post("/logout").status_code == 204
    assert api.http.get("/api/whoami", headers={"Cookie": f"{COOKIE}={kept}"}).status_code == 401


def test_who_guesses_tokens_has_to_wait_and_nobody_else():
    now = [0.0]
    access = Access(["10.0.0.5"], TOKEN, lambda: now[0])
    api, elsewhere = MadeUpApi(access=access, address="10.0.0.9"), MadeUpApi(access=access, address="10.0.0.10")
    assert api.http.post("/login", json={"token": TOKEN, "name": "ann"}).status_code == 204
    tries = (
        lambda guess: api.http.get("/api/whoami", headers={"Authorization": f"Bearer {guess}"}),
        lambda guess: api.http.get("/api/whoami", headers=basic("ann", guess)),
        lambda guess: api.http.post("/login", json={"token": guess}),
    )
    for number in range(GUESSES):
        assert tries[number % len(tries)](f"guess {number}").status_code == 401
    now[0] = 0.5
    for attempt in tries:
        answer = attempt(TOKEN)  # also the right one: else it would be found by guessing on
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
        assert answer.json()["error"] == "too_many_requests"
    assert api.http.get("/api/whoami").json()["name"] == "ann"  # by the cookie of before
    assert elsewhere.http.get("/api/whoami", headers=basic("bob", TOKEN)).status_code == 200
    now[0] = WITHIN_S
    assert [attempt(TOKEN).status_code for attempt in tries] == [200, 200, 204]


def test_a_program_that_was_told_a_wrong_token_keeps_nobody_out():
    api = guarded()
    for _ in range(2 * GUESSES):
        assert api.http.get("/api/whoami", headers=basic("ann", "old")).status_code == 401
        assert api.http.get("/api/whoami").status_code == 401
    assert api.http.get("/api/whoami", headers=basic("ann", TOKEN)).status_code == 200


def test_a_minute_of_guesses_begins_with_the_first_and_their_addresses_are_bounded():
    now = [0.0]
    wrong = WrongTokens(lambda: now[0], guesses=2, within_s=60.0, addresses=2)
    wrong.note("a", b"1")
    now[0] = 59.0
    wrong.note("a", b"2")
    assert (wrong.wait_s("a"), wrong.wait_s("b")) == (1.0, 0.0)
    now[0] = 60.0
    wrong.note("a", b"3")
    assert wrong.wait_s("a") == 0.0  # those of the minute before are forgotten
    wrong.note("a", b"4")
    wrong.note("b", b"1")
    assert wrong.wait_s("a") == 60.0
    wrong.note("c", b"1")  # "a" goes: it was the first
    wrong.note("b", b"2")
    assert [wrong.wait_s(address) for address in "abc"] == [0.0, 60.0, 0.0]


def test_a_login_by_a_form_leads_home():
    api = guarded()
    answer = api.http.post("/login", data={"token": TOKEN, "name": "bob"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert api.http.get("/api/whoami").json()["name"] == "bob"


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", ""), (b"{", ""), (b"[]", ""), (b'{"token": 3}', ""), (b"%ff=%ff", "form"), (b"&&&", "form"), (b"a" * 20_000, "")],
)  # fmt: skip
def test_a_login_that_cannot_be_read_is_refused(content, kind):
    headers = {"content-type": "application/x-www-form-urlencoded"} if kind else {}
    api = guarded()
    assert api.http.post("/login", content=content, headers=headers).status_code in (400, 401, 413)
    assert COOKIE not in api.http.cookies


def test_there_is_no_login_by_get():
    assert guarded().http.get("/login", params={"token": TOKEN}).status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://localhost:1"}, {"Origin": "http://localhost"},
        {"Origin": ""}, {"Origin": "file://localhost:15672"},
    ],
)  # fmt: skip
def test_another_site_can_change_nothing(headers):
    for api in (MadeUpApi(), guarded()):
        given = headers | basic("ann", TOKEN)
        assert api.http.put(QUEUE, json={}, headers=given).status_code == 403
        assert api.http.delete(QUEUE, headers=given).status_code == 403
        assert api.http.post("/login", json={"token": TOKEN}, headers=given).status_code == 403
        assert api.http.post("/logout", headers=given).status_code == 403
        assert api.deeds.done == []


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://localhost:15672", "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {}],
)  # fmt: skip
def test_our_own_pages_and_programs_can(headers):
    assert MadeUpApi().http.put(QUEUE, json={}, headers=headers).status_code == 201


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:15672", "localhost.evil.example", "", "127.0.0.1.evil.example", "10.0.0.5"]
)
def test_a_name_that_is_not_ours_is_refused_also_to_read(host):
    api = MadeUpApi()
    assert api.http.get("/api/overview", headers={"Host": host}).status_code == 403
    assert api.http.put(QUEUE, json={}, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:15672", "127.9.9.9", "[::1]:15672", "10.0.0.5:80", "Manta.Example"]
)
def test_names_that_are_ours(host):
    headers = {"Host": host, "Authorization": f"Bearer {TOKEN}"}
    assert guarded().http.get("/api/overview", headers=headers).status_code == 200


def test_who_listens_on_all_addresses_is_called_by_any_address_but_by_no_name():
    api = MadeUpApi(access=Access(["0.0.0.0"], TOKEN))
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert api.http.get("/api/overview", headers=bearer | {"Host": "192.168.7.7:80"}).status_code == 200
    assert api.http.get("/api/overview", headers=bearer | {"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("host", "is_so"),
    [("localhost", True), ("::1", True), ("127.3.2.1", True), ("0.0.0.0", False), ("x", False), ("", False)],
)
def test_what_is_loopback(host, is_so):
    assert is_loopback(host) is is_so


def test_sessions_end_with_time_and_are_not_without_bound():
    now = [0.0]
    sessions = Sessions(lambda: now[0], lasts_s=10.0, most=2)
    first, second = sessions.begin("a"), sessions.begin("b")
    assert (sessions.name(first), sessions.name(second), sessions.name("guess")) == ("a", "b", None)
    third = sessions.begin("c")
    assert (sessions.name(first), sessions.name(third)) == (None, "c")
    now[0] = 10.0
    assert sessions.name(third) is None
    assert len({sessions.begin("x") for _ in range(20)}) == 20


def test_answers_are_kept_by_nobody_and_read_by_no_other_site():
    headers = MadeUpApi().http.get("/api/overview").headers
    assert headers["cache-control"] == "no-store" and headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
