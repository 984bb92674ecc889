from __future__ import annotations

import pytest

from tau.errors import UsageError
from tau.records.settings import CompatSettings, Settings
from tau.runtime.app.config import settings_with


@pytest.mark.parametrize("given", [{"compat": {"statsOf": "conversation"}}, {"statsOf": "conversation"}])
def test_a_caller_can_set_a_setting_of_compat_by_both_names(given: dict[str, object]) -> None:
    known = Settings(compat=CompatSettings(steer_after="turn"))
    assert settings_with(known, given) == Settings(compat=CompatSettings(steer_after="turn", stats_of="conversation"))


def test_an_unknown_setting_of_a_caller_is_refused() -> None:
    with pytest.raises(UsageError, match="settings: there is no stats_of"):
        settings_with(Settings(), {"stats_of": "conversation"})
