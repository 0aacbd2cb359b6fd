"""Who may do what: tokens, roles, namespaces, and access tokens of OAuth2."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import esker
from esker.errors import InvalidInput
from esker.lake import Lake
from esker.serve.access import LIFETIME_S, Tokens
from esker.serve.call import Answer, Call
from esker.serve.catalog_service import Service
from esker.serve.listen.run_server import Listening, make_server

ADMIN, WRITER, READER, LIMITED = "admin-token-0123456789", "write-token-0123456789", "read-token-0123456789", "l" * 20


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    for name in ("sales", "sales.eu", "hr"):
        lake.create_namespace(name)
    lake.create_table("hr.pay", "id int")
    lake.create_table("sales.eu.t", "id int")
    return lake


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    hashed = hashlib.sha256(READER.encode()).hexdigest()
    path.write_text(f"# tokens\n{ADMIN}\nwrite {WRITER}\n\nread sha256:{hashed}\nwrite {LIMITED} sales.eu\n")
    return path


def ask(service: Service, method: str, path: str, token: str | None, body: Any = None, **query: str) -> Answer:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    content = b"" if body is None else msgspec.json.encode(body)
    return service.answer(method, path, Call(headers=headers, body=content, query=query))


def test_s02_a_caller_without_a_valid_token_learns_nothing(lake: Lake, file: Path) -> None:
    service = Service(lake, tokens=Tokens.read(file))
    for token in (None, "", "wrong-token-0123456789", f"{ADMIN}x"):
        for path in ("/v1/config", "/v1/namespaces", "/v1/namespaces/hr/tables/pay", "/v1/namespaces/no/tables/no"):
            answer = ask(service, "GET", path, token)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert (b"is needed" if not token else b"is not valid") in answer.body
            assert ADMIN.encode() not in answer.body


@pytest.mark.parametrize(
    ("token", "statuses"), [(READER, (200, 403, 403)), (WRITER, (200, 200, 403)), (ADMIN, (200, 200, 200))]
)
def test_each_role_may_do_what_the_one_before_it_may_and_more(
    lake: Lake, file: Path, token: str, statuses: tuple[int, ...]
) -> None:
    service = Service(lake, tokens=Tokens.read(file))
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "int", "required": False}]}
    answers = (
        ask(service, "GET", "/v1/namespaces/hr/tables/pay", token),
        ask(service, "POST", "/v1/namespaces/hr/tables", token, {"name": "new", "schema": schema}),
        ask(service, "POST", "/v1/namespaces", token, {"namespace": ["new"]}),
    )
    assert tuple(answer.status for answer in answers) == statuses


def test_s02_what_is_hidden_looks_like_what_is_missing(lake: Lake, file: Path) -> None:
    service = Service(lake, tokens=Tokens.read(file))
    hidden = ask(service, "GET", "/v1/namespaces/hr/tables/pay", LIMITED)
    missing = ask(service, "GET", "/v1/namespaces/no/tables/no", LIMITED)
    assert hidden.status == missing.status == 403
    assert hidden.body == missing.body
    assert msgspec.json.decode(ask(service, "GET", "/v1/namespaces", LIMITED).body)["namespaces"] == [["sales"]]
    assert ask(service, "GET", "/v1/namespaces/sales%1Feu/tables/t", LIMITED).status == 200
    assert ask(service, "DELETE", "/v1/namespaces/sales%1Feu/tables/t", LIMITED).status == 204


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v1/tables/rename",
            {
                "source": {"namespace": ["hr"], "name": "pay"},
                "destination": {"namespace": ["sales", "eu"], "name": "pay"},
            },
        ),
        (
            "/v1/transactions/commit",
            {
                "table-changes": [
                    {"identifier": {"namespace": ["hr"], "name": "pay"}, "requirements": [], "updates": []}
                ]
            },
        ),
    ],
)
def test_a_name_in_the_body_is_checked_too(lake: Lake, file: Path, path: str, body: Any) -> None:
    service = Service(lake, tokens=Tokens.read(file))
    assert ask(service, "POST", path, LIMITED, body).status == 403
    assert ask(service, "POST", path, WRITER, body).status == 204


def test_a_form_for_a_token_is_short(lake: Lake, file: Path) -> None:
    """It is read before the caller is known, so it must not take long."""
    service = Service(lake, tokens=Tokens.read(file))
    form = f"client_secret={READER}".encode()
    assert service.answer("POST", "/v1/oauth/tokens", Call(body=form + b"&a=1" * 1000)).status == 200
    assert service.answer("POST", "/v1/oauth/tokens", Call(body=form + b"&a=1" * 20_000)).status == 400


def test_credentials_are_exchanged_for_a_token_that_expires(lake: Lake, file: Path) -> None:
    now = [1_000_000.0]
    tokens = Tokens(Tokens.read(file)._callers, now=lambda: now[0])
    service = Service(lake, tokens=tokens)

    def exchange(secret: str) -> Answer:
        form = f"grant_type=client_credentials&client_id=x&client_secret={secret}&scope=catalog".encode()
        return service.answer("POST", "/v1/oauth/tokens", Call(body=form))

    assert exchange("wrong-token-0123456789").status == 401
    given = msgspec.json.decode(exchange(READER).body)
    token = given["access_token"]
    assert READER not in token
    assert ask(service, "GET", "/v1/namespaces", token).status == 200
    assert ask(service, "POST", "/v1/namespaces", token, {"namespace": ["new"]}).status == 403
    cut = token[:-2] + ("aa" if token[-2:] != "aa" else "bb")
    assert ask(service, "GET", "/v1/namespaces", cut).status == 401
    now[0] += LIFETIME_S + 1
    assert ask(service, "GET", "/v1/namespaces", token).status == 401


def test_an_access_token_is_renewed_before_and_after_its_end(lake: Lake, file: Path) -> None:
    """As Iceberg's Java client does it. Without this, a session of Spark would end after an hour."""
    now = [1_000_000.0]
    found = Tokens.read(file)
    tokens = Tokens(found._callers, lambda: now[0])
    service = Service(lake, tokens=tokens)
    kind = "urn:ietf:params:oauth:token-type:access_token"

    def exchange(subject: str, **headers: str) -> Answer:
        form = (
            f"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={subject}"
            f"&subject_token_type={kind}&scope=catalog"
        )
        return service.answer("POST", "/v1/oauth/tokens", Call(body=form.encode(), headers=headers))

    token = msgspec.json.decode(exchange(LIMITED).body)["access_token"]
    for _ in range(3):
        now[0] += LIFETIME_S - 60
        old, answer = token, exchange(token, authorization=f"Bearer {token}")
        assert answer.status == 200, answer.body
        token = msgspec.json.decode(answer.body)["access_token"]
        assert ask(service, "GET", "/v1/namespaces/sales%1Feu/tables", token).status == 200
        assert ask(service, "GET", "/v1/namespaces/hr/tables", token).status == 403
        assert token != old
    now[0] += LIFETIME_S + 1
    assert exchange(token, authorization=f"Bearer {token}").status == 401
    basic = base64.b64encode(f"client:{LIMITED}".encode()).decode()
    again = exchange(token, authorization=f"Basic {basic}")
    assert again.status == 200
    assert exchange("junk").status == 401


def test_s03_no_request_gives_a_caller_more_rights(lake: Lake, file: Path) -> None:
    """Rights are in the file alone: an exchange keeps the role and the namespaces, whatever the client asks for."""
    service = Service(lake, tokens=Tokens.read(file))
    for secret in (READER, LIMITED):
        token = secret
        for _ in range(2):  # an access token is no secret of a client
            form = (
                f"grant_type=client_credentials&client_id=admin&client_secret={token}&scope=admin&role=admin".encode()
            )
            answer = service.answer("POST", "/v1/oauth/tokens", Call(body=form))
            token = msgspec.json.decode(answer.body).get("access_token", token)
        assert ask(service, "POST", "/v1/namespaces", token, {"namespace": ["new"]}).status == 403
        assert ask(service, "DELETE", "/v1/namespaces/hr/tables/pay", token).status == 403
        rights = {"updates": {"owner": "me", "role": "admin"}, "removals": []}
        assert ask(service, "POST", "/v1/namespaces/sales%1Feu/properties", token, rights).status == 403
    assert ask(service, "HEAD", "/v1/namespaces/hr/tables/pay", ADMIN).status == 204


@pytest.mark.parametrize(
    "text",
    ["", "# none\n", "owner abcdefghijklmnopqrstu\n", "admin short\n", "read sha256:ab\n", "read tökentökentöken\n"],
)
def test_a_token_file_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        Tokens.read(path)


def test_a_token_has_one_role(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"read {READER} sales\n\nadmin sha256:{hashlib.sha256(READER.encode()).hexdigest()}\n")
    with pytest.raises(InvalidInput, match="line 3 has the token of line 1"):
        Tokens.read(path)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.test"])
def test_the_server_does_not_leave_this_machine_without_tokens(lake: Lake, host: str) -> None:
    with pytest.raises(InvalidInput, match="--token-file"):
        make_server(lake, Listening(host=host))


def test_s02_a_token_for_a_namespace_does_not_read_the_tables_of_the_one_above(lake: Lake, file: Path) -> None:
    lake.create_table("sales.secret", "id int")
    service = Service(lake, tokens=Tokens.read(file))
    for method, path in (
        ("GET", "/v1/namespaces/sales/tables/secret"),
        ("HEAD", "/v1/namespaces/sales/tables/secret"),
        ("GET", "/v1/namespaces/sales/tables/secret/credentials"),
        ("GET", "/v1/namespaces/sales/tables"),
        ("GET", "/v1/namespaces/sales/views"),
        ("POST", "/v1/namespaces/sales/tables/secret/plan"),
    ):
        assert ask(service, method, path, LIMITED, {}).status == 403, path
    assert ask(service, "GET", "/v1/namespaces/sales", LIMITED).status == 200  # it leads to the one that is allowed
    assert ask(service, "HEAD", "/v1/namespaces/hr", LIMITED).status == 403


def test_s02_a_list_below_a_hidden_namespace_is_answered_as_one_below_a_missing_one(lake: Lake, file: Path) -> None:
    service = Service(lake, tokens=Tokens.read(file))

    def listed(parent: str, token: str) -> tuple[int, str]:
        call = Call(headers={"authorization": f"Bearer {token}"}, query={"parent": parent})
        answer = service.answer("GET", "/v1/namespaces", call)
        return answer.status, answer.body.decode().replace(parent, "it")

    assert listed("hr", LIMITED) == listed("zz", LIMITED)
    assert listed("hr", LIMITED)[0] == 404
    assert listed("hr", ADMIN)[0] == listed("sales", LIMITED)[0] == 200


@pytest.mark.parametrize(
    ("grant", "status"),
    [
        ("client_credentials", 200),
        ("urn:ietf:params:oauth:grant-type:token-exchange", 200),
        ("password", 400),
        ("refresh_token", 400),
    ],
)
def test_other_grants_of_oauth2_are_refused_by_name(lake: Lake, file: Path, grant: str, status: int) -> None:
    service = Service(lake, tokens=Tokens.read(file))
    form = f"grant_type={grant}&client_secret={READER}".encode()
    answer = service.answer("POST", "/v1/oauth/tokens", Call(body=form))
    assert answer.status == status
    assert (b"unsupported_grant_type" in answer.body) == (status == 400)
