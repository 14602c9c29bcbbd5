"""From the words of the command line to an exit code."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

import httpx

from apps.ctl.arguments import KEY_VARIABLE, URL_VARIABLE, parser
from apps.ctl.client import Client
from apps.ctl.errors import CtlError, Exit, usage
from apps.ctl.output import Output
from chronoweb.runtime.terminal import visible

_LOCAL = ("localhost", "127.0.0.1", "::1")


def main(
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    out: TextIO | None = None,
    err: TextIO | None = None,
    transport: httpx.BaseTransport | None = None,
) -> int:
    """Run one command. transport: what carries requests; None: the network."""
    out, err = out or sys.stdout, err or sys.stderr
    try:
        options = parser().parse_args(list(words))
    except SystemExit as ended:
        return int(ended.code or 0)
    try:
        url = options.url or environment.get(URL_VARIABLE)
        if not url:
            raise usage(f"which server? Set {URL_VARIABLE} or give --url")
        key = _key(options.key, options.key_file, environment)
        client = Client(url, key, transport=transport)
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            err.write("ctl: the key goes over the network unencrypted; use https\n")
        try:
            options.act(client, options, Output(out, options.output))
        finally:
            client.close()
    except CtlError as error:
        err.write("".join(f"ctl: {visible(line)}\n" for line in str(error).split("\n")))
        return int(error.code)
    except BrokenPipeError:  # whoever read has enough, such as head
        return int(Exit.DONE)
    except KeyboardInterrupt:
        return 130
    return int(Exit.DONE)


def _key(given: str | None, file: str | None, environment: Mapping[str, str]) -> str:
    """The API key. Raises CtlError where there is none."""
    if given:
        return given
    if file:
        try:
            text = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise usage(f"{file} cannot be read: {error}") from None
        if text:
            return text
        raise usage(f"{file} is empty")
    if key := environment.get(KEY_VARIABLE, "").strip():
        return key
    raise usage(f"which key? Set {KEY_VARIABLE} or give --key-file")
