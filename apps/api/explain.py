"""/api/v1/executions/{id}/explain, and the same of a node of a run: why it is not running."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView
from apps.api.openapi.declare import documented
from apps.api.representations import moment
from apps.executions.states import ExecutionClass, Hold
from apps.explain import service
from apps.explain.words import Reason


class ExplainExecution(ApiView):
    """Every reason that holds, what persons and quotas forbid first; its place in its queue; a guess when it starts."""

    @documented("Explain why an execution is not running", gives="Explanation")
    def get(self, request: Request, execution_id: UUID) -> Response:
        return Response(explanation(service.explain(principal(request), execution_id)))


class ExplainNode(ApiView):
    """What a node of a run waits for; once it has an execution, that execution's reasons, too."""

    @documented("Explain why a node of a run has not begun", gives="NodeExplanation")
    def get(self, request: Request, run_id: UUID, node_id: str) -> Response:
        found = service.explain_node(principal(request), run_id, node_id)
        return Response(
            {
                "state": found.state.word,
                "reasons": [_reason(reason) for reason in found.reasons],
                "execution": None if found.execution is None else explanation(found.execution),
            }
        )


def explanation(found: service.Explanation) -> dict[str, Any]:
    facts, place, guess = found.facts, found.position, found.estimate
    return {
        "id": str(facts.id),
        "status": facts.status.word,
        "hold": None if facts.hold is Hold.NONE else facts.hold.word,
        "class": ExecutionClass(facts.execution_class).word,
        "at": moment(facts.now),
        "reasons": [_reason(reason) for reason in found.reasons],
        "position": place
        and {"ahead": place.ahead, "at_least": place.at_least, "turns": place.turns, "loaded": place.loaded},
        "estimated_start": guess and {"at": moment(guess.at), "basis": guess.basis},
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "code": reason.code.value,
        "text": reason.text,
        "figures": dict(reason.figures),
        "since": moment(reason.since),
        "clears_when": moment(reason.clears_when),
    }
