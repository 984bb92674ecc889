"""Cache of what servers list, so that their tools are known before they are started.

One private file per configured server in `cache/mcp` of the agent's folder. Its name is a hash of the configuration,
so that a changed entry is another file. No secret is in it.
"""

from __future__ import annotations

import logging
import os
from hashlib import sha256
from pathlib import Path

from tau.mcp.config import ServerConfig, fingerprint_fields
from tau.mcp.definitions import Listing
from tau.records.base import BadRecord, decode, encode
from tau.store.files import make_folder, read_small, replace_file

logger = logging.getLogger(__name__)
VALID_S = 7 * 24 * 60 * 60
MAX_FILE_BYTES = 64 * 1024 * 1024


class ListingCache:
    """All methods block."""

    def __init__(self, agent_dir: Path) -> None:
        self.folder = agent_dir / "cache" / "mcp"

    def read(self, config: ServerConfig, account: str, now: float) -> Listing | None:
        """What the server listed last; None if that is unknown, too old or unreadable."""
        try:
            listing = decode(Listing, read_small(self._path(config, account), MAX_FILE_BYTES))
        except (OSError, BadRecord):
            return None
        age = now - listing.listed_at
        return listing if age >= -60 and (age < VALID_S or age * 1000 < listing.ttl_ms) else None

    def write(self, config: ServerConfig, account: str, listing: Listing) -> None:
        """A failure is only logged: the next start fetches the list again."""
        path = self._path(config, account)
        try:
            make_folder(path.parent)
            replace_file(path, encode(listing))
        except (OSError, BadRecord) as error:
            logger.info("the list of an MCP server was not cached: %s", error)

    def remove(self, config: ServerConfig, account: str) -> bool:
        try:
            os.unlink(self._path(config, account))
        except OSError:
            return False
        return True

    def _path(self, config: ServerConfig, account: str) -> Path:
        fields = [*fingerprint_fields(config, _hash), account]
        return self.folder / f"{_hash(chr(0).join(fields))[:32]}.json"


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
