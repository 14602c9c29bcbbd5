"""How this worker runs containers."""

from dataclasses import dataclass

from chronoweb.runtime.config import Config

ENGINES = ("podman", "docker")
"""In the order in which "auto" looks for them."""


@dataclass(frozen=True)
class ContainerPolicy:
    """engine: auto, podman, docker or none. engine_arguments go before the engine's subcommand, run_arguments
    into its run. worker: the worker's id, for labels. allowed_networks: CIDRs that may be reached although private.
    """

    engine: str = "none"
    engine_arguments: tuple[str, ...] = ()
    run_arguments: tuple[str, ...] = ()
    pull: str = "missing"
    processes: int = 256
    tmp_mib: int = 64
    sweep_seconds: float = 60.0
    worker: str = ""
    allowed_networks: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Config, *, worker: int) -> "ContainerPolicy":
        return cls(
            engine=config.container_engine,
            engine_arguments=config.container_engine_arguments,
            run_arguments=config.container_run_arguments,
            pull=config.container_pull,
            processes=config.container_processes,
            tmp_mib=config.container_tmp_mib,
            sweep_seconds=config.container_sweep_seconds,
            worker=str(worker),
            allowed_networks=config.outbound_allowed_networks,
        )

    @property
    def candidates(self) -> tuple[str, ...]:
        """The engines to look for."""
        if self.engine == "none":
            return ()
        return ENGINES if self.engine == "auto" else (self.engine,)
