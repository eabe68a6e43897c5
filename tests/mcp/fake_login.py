"""The server of fake_http.py, which answers only whom it knows. It lets people log in itself, at places that only its refusals
name, and asks nobody anything there. Its first argument has words, with commas between them:

- by_hand: it registers nobody, and knows the client `me` with the secret `registered-secret`
- brief: its tokens have run out when they come, so that each request renews them
- forged: it says of itself that it is somebody else, at a place that says nothing of who should be there
- moves: when it has given a token it says no more where people log in
- more: its tool wants the scope `write` besides
- rotates: it knows no client any more that wants to renew a token
- never: its tool wants the scope `write`, whoever has it
"""

import base64
import hashlib
import itertools
import json
from urllib.parse import parse_qs, quote, urlsplit

from fake_http import MODE, Handler, note, serve

WORDS = MODE.split(",")
numbers = itertools.count(1)
clients = {"me": "registered-secret"} if "by_hand" in WORDS else {}
codes, tokens, renewals = {}, {}, {}


class Login(Handler):
    def home(self):
        return "http://" + self.headers["host"]

    def refuse(self, status, says):
        header = 'Bearer %s, resource_metadata="%s/of/its/own.json"' % (says, self.home())
        self.reply(status, {}, www_authenticate=header)

    def allows(self, message):
        scope = tokens.get(self.headers.get("authorization", "").removeprefix("Bearer "))
        if scope is None:
            self.refuse(401, 'scope="read"')
        elif message.get("method") == "tools/call" and ("never" in WORDS or "more" in WORDS and "write" not in scope):
            note("refused", " ".join(sorted(scope)))
            self.refuse(403, 'error="insufficient_scope", scope="write"')
        else:
            return True
        return False

    def do_GET(self):
        url = urlsplit(self.path)
        home, people = self.home(), self.home() + "/people"
        if "moves" in WORDS and tokens and url.path != "/mcp":
            self.reply(404)
        elif url.path == "/of/its/own.json":
            place = people + "/.well-known/anything" if "forged" in WORDS else people
            self.reply(200, {"resource": home + "/mcp", "authorization_servers": [place]})
        elif url.path in ("/people/.well-known/openid-configuration", "/people/.well-known/anything"):
            places = {"authorization_endpoint": people + "/authorize", "token_endpoint": people + "/token"}
            if "by_hand" not in WORDS:
                places["registration_endpoint"] = people + "/register"
            issuer = "http://localhost:9/honest" if "forged" in WORDS else people
            self.reply(200, {"issuer": issuer, "response_types_supported": ["code"],
                             "code_challenge_methods_supported": ["S256"], **places})
        elif url.path == "/people/authorize":
            asked = {name: values[0] for name, values in parse_qs(url.query).items()}
            note("asked_for", " ".join(sorted(asked.get("scope", "").split())))
            code = "code-%d" % next(numbers)
            codes[code] = asked
            self.reply(302, location="%s?code=%s&state=%s" % (asked["redirect_uri"], code, quote(asked["state"])))
        else:
            self.reply(405 if url.path == "/mcp" else 404)

    def do_POST(self):
        if self.path == "/mcp":
            return super().do_POST()
        text = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        if self.path == "/people/register" and "by_hand" not in WORDS:
            name = "client-%d" % next(numbers)
            note("registered", name)
            clients[name] = "secret-of-" + name
            self.reply(201, {"client_id": name, "client_secret": clients[name],
                             "redirect_uris": json.loads(text)["redirect_uris"]})
        elif self.path == "/people/token":
            self.token({name: values[0] for name, values in parse_qs(text).items()})
        else:
            note("shown", self.path)
            self.reply(404)

    def token(self, asked):
        shown = base64.b64decode(self.headers.get("authorization", "").removeprefix("Basic ")).decode()
        name, _, secret = shown.partition(":")
        if "rotates" in WORDS and asked["grant_type"] == "refresh_token":
            return self.reply(401, {"error": "invalid_client"})
        if clients.get(name) != secret:
            note("strangers", shown)
            return self.reply(401, {"error": "invalid_client"})
        if asked["grant_type"] == "refresh_token":
            owner, scope = renewals.get(asked["refresh_token"], (None, None))
            note("renewed", name)
        else:
            begun = codes.pop(asked["code"])
            owner, scope = begun["client_id"], begun.get("scope", "").split()
            proof = hashlib.sha256(asked["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(proof).decode().rstrip("=") != begun["code_challenge"]:
                owner = None
        if owner != name:
            return self.reply(400, {"error": "invalid_grant"})
        number = next(numbers)
        tokens["token-%d" % number], renewals["renewal-%d" % number] = scope, (name, scope)
        self.reply(200, {"access_token": "token-%d" % number, "refresh_token": "renewal-%d" % number,
                         "token_type": "Bearer", "expires_in": 0 if "brief" in WORDS else 3600, "scope": " ".join(scope)})


serve(Login)
