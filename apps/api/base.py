"""What every view of the API shares."""

from collections.abc import Callable
from typing import Any

from django.http import QueryDict
from rest_framework.exceptions import NotAuthenticated, PermissionDenied
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api import problems, queries
from apps.api.authentication import Bearer, BrowserSession
from apps.api.idempotency import HEADER, once
from apps.api.parsing import StrictJsonParser
from apps.api.scopes import refuse_out_of_scope
from apps.definitions import json_values
from apps.tenants.limits import count_request
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from apps.tenants.regions import refuse_foreign
from chronoweb.runtime.errors import InvalidInput, InvalidInputs, NotFound
from chronoweb.runtime.rate_limit import Taken


class JsonAlways(BaseContentNegotiation):
    """One representation, whatever Accept says: browsers and careless clients get JSON as well."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        if request.META.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() not in ("", "identity"):
            return None  # nothing is unpacked here: small bodies would become huge ones
        kind = (request.content_type or "").split(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == kind), None)

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class PublicView(APIView):
    """Speaks JSON and problem details; asks nobody who they are."""

    authentication_classes: Any = []
    permission_classes: Any = []
    parser_classes = [StrictJsonParser]
    renderer_classes = [JSONRenderer]
    content_negotiation_class = JsonAlways
    metadata_class = None

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
            # Without a length DRF takes the body for empty. The parser reads to the end anyhow.
            request.META.setdefault("CONTENT_LENGTH", "1")
        return super().initialize_request(request, *args, **kwargs)

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return problems.handle


class ApiView(PublicView):
    """For holders of an API key, a token or a session: viewers read, operators write too.

    repeatable: whether its POST heeds Idempotency-Key. secret_answer: what its POST answers must not be kept.
    query_parameters: what the URL's query may name; anything else is refused, on every route.
    """

    authentication_classes: Any = [Bearer, BrowserSession]
    repeatable = True
    secret_answer = False
    query_parameters: tuple[str, ...] = ()
    _taken: Taken | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not isinstance(request.user, Principal):
            raise NotAuthenticated("an API key or a token is needed: Authorization: Bearer <API key or access token>")
        refuse_foreign(request.user)
        self._taken = count_request(request.user)
        refuse_out_of_scope(request.user, request.path)
        needed = self.needed_role(request)
        if not request.user.may(needed):
            raise PermissionDenied(f"this needs the role {needed.value}; yours is {request.user.role.value}")
        queries.refuse_unknown(request, self.query_parameters)
        if request.method == "POST" and self.repeatable:
            self._act_once(request)

    def _act_once(self, request: Request) -> None:
        """DRF takes the handler behind `initial`: from here on it is one that heeds the request's key."""
        post: Callable[..., Response] = getattr(self, "post", self.http_method_not_allowed)

        def repeatable_post(*args: Any, **kwargs: Any) -> Response:
            if HEADER not in request.headers:
                return post(*args, **kwargs)
            question = self.question(request)
            return once(request, lambda: post(*args, **kwargs), question=question, secret=self.secret_answer)

        setattr(self, "post", repeatable_post)  # noqa: B010 - mypy takes an assignment for a method of the class

    def question(self, request: Request) -> Any:
        """What tells one POST with an Idempotency-Key from another: the body."""
        return given(request)

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        if self._taken is not None:
            for name, value in self._taken.headers().items():
                answer[name] = value
        return answer

    def needed_role(self, request: Request) -> Role:
        """The least role for this request."""
        return Role.VIEWER if request.method in ("GET", "HEAD") else Role.OPERATOR


class UnknownRoute(PublicView):
    """Everything below /api/ that is not there."""

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound(f"no such route: {request.path[:200]}")


def given(request: Request) -> Any:
    """The body's JSON value; an empty object where there is no body."""
    data = request.data
    # Without a body DRF makes up an empty value, whose type depends on the Content-Type.
    return {} if isinstance(data, QueryDict) and not data else data


def body_object(request: Request, *, fields: tuple[str, ...], needed: bool = False) -> dict[str, Any]:
    """The body, which must be an object of these fields alone; no body is an empty object.

    needed: no body is refused, so that who has lost it does not mean everything.
    """
    data = given(request)
    if needed and request.stream is None:
        raise InvalidInput("", None, "a body is needed; {} is everything", ", ".join(fields))
    if not isinstance(data, dict):
        raise InvalidInput("", data, "must be a JSON object", ", ".join(fields) or "{}")
    unknown = [
        InvalidInput(f"/{json_values.escape(name)}", data[name], "is not a field here", ", ".join(fields))
        for name in data
        if name not in fields
    ]
    if unknown:
        raise InvalidInputs(unknown)
    return data
