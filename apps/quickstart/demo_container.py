"""The demo's container task: only where a container engine answers and has an image already; nothing is fetched."""

import asyncio
from typing import Any

from apps.worker.containers.engine import find
from apps.worker.containers.policy import ContainerPolicy

IMAGES = tuple(
    f"docker.io/library/{name}" for name in ("busybox:latest", "alpine:latest", "debian:stable-slim", "debian:latest")
)


def local_image(policy: ContainerPolicy) -> str | None:
    """The first of IMAGES that an engine of this machine has."""

    async def look() -> str | None:
        engine = await find(policy)
        if engine is None:
            return None
        for image in IMAGES:
            if await engine.has_image(image):
                return image
        return None

    return asyncio.run(look())


def container_task(image: str) -> dict[str, Any]:
    """The document of the task, as the REST API would take it."""
    return {
        "name": "in-a-container",
        "description": "Says who it is: nobody, in a container without network, with nothing to write to but /tmp.",
        "tags": ["demo"],
        "schedule": {"type": "interval", "every_seconds": 60},
        "catchup_seconds": 0,
        "handler": {
            "type": "container",
            "image": image,
            "command": ["id"],
            "resource_requirements": {"cpu": "250m", "memory": "64Mi"},
        },
        "timeout_seconds": 60,
    }
