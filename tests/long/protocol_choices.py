"""The part of the reference model for what a client sets, and what a session has when it is opened.

A setting takes effect when its line is read, before it is answered. Behind a command that goes to another session it
takes effect when that is answered.
"""

from __future__ import annotations

from typing import Any

from long.protocol_commands import MODES, Sent
from long.protocol_rules import Json, Rule, require, short
from long.protocol_runs import Config
from long.protocol_sessions import Session
from long.protocol_setup import IDS, PROVIDER, clamp, levels


class Choices:
    saved: Json  # the settings file
    config: Config
    sessions: list[Session]
    current: Session
    usages: dict[str, Json]
    model: str
    level: str
    auto_compaction: bool
    _unsure: bool  # the model and the level are not known until they are asked for

    def _take_model(self, session: Session) -> None:
        """Go on with the model of a session that is opened."""
        found = session.models()
        self._unsure = len(found) > 1
        self.model = next(iter(found), self.model)

    def _take_level(self, session: Session, usual: str) -> None:
        """Go on with its level. One that a session lacks is noted before its next prompt."""
        kept = session.setting("thinking_level_change")
        session.lacks_level, session.level_set = kept is None, None
        self.level = clamp(kept["thinkingLevel"] if kept else usual, self.model)

    def _fresh_session(self) -> Session:
        session = Session(usages=self.usages)
        if self._unsure:
            session.expect("model_change", provider=PROVIDER)
            session.expect("thinking_level_change")
        else:
            session.expect("model_change", provider=PROVIDER, modelId=self.model)
            session.expect("thinking_level_change", thinkingLevel=self.level)
        self.sessions.append(session)
        return session

    def _settings(self) -> Json:
        return {
            "model": self.model,
            "thinkingLevel": self.level,
            "steeringMode": self.saved.get("steeringMode", MODES[1]),
            "followUpMode": self.saved.get("followUpMode", MODES[1]),
            "autoCompactionEnabled": self.auto_compaction,
            "name": self.current.name,
        }

    def _apply(self, sent: Sent) -> None:
        """A change that takes effect when its turn has come, before it is answered."""
        command, session = sent.command, self.current
        match sent.kind:
            case "set_model":
                sent.refused = command["provider"] != PROVIDER or command["modelId"] not in IDS
                if not sent.refused:
                    sent.predicted = command["modelId"]
                    self._set_model(command["modelId"], sent.place)
            case "cycle_model":
                sent.predicted = IDS[(IDS.index(self.model) + 1) % len(IDS)]
                self._set_model(sent.predicted, sent.place)
                sent.predicted = None if self._unsure else (sent.predicted, self.level)
            case "set_thinking_level":
                fitted = clamp(command["level"], self.model)
                self._set_level(fitted, sent.place, save=fitted == command["level"])
            case "cycle_thinking_level":
                offered = levels(self.model)
                if len(offered) > 1:
                    sent.predicted = offered[(offered.index(self.level) + 1) % len(offered)]
                    self._set_level(sent.predicted, sent.place, save=True)
            case "set_session_name":
                sent.refused = not command["name"].strip()
                if not sent.refused:
                    session.expect("session_info", place=sent.place, name=command["name"].strip())
            case "bash":
                sent.session = session

    def _set_model(self, model: str, place: int) -> None:
        self.model = model
        self.saved |= {"defaultProvider": PROVIDER, "defaultModel": model}
        self.current.expect("model_change", place=place, provider=PROVIDER, modelId=model)
        self._set_level(clamp(self.level, model), place, save=False)

    def _set_level(self, level: str, place: int, *, save: bool) -> None:
        """`save`: the client chose this level; one that was fitted to a model does not become a default."""
        if level != self.level and self.current.level_set is None:
            self.current.level_set = place
        if self._unsure:
            self.current.expect("thinking_level_change", place=place, optional=True)
        elif level != self.level:
            self.current.expect("thinking_level_change", place=place, thinkingLevel=level)
            if save:
                self.saved["defaultThinkingLevel"] = level
        self.level = level

    def _note_level(self, place: int) -> None:
        """A session without a level gets one before its first prompt, if none was set until then."""
        session = self.current
        if not session.lacks_level:
            return
        session.lacks_level = False
        changes = [item for item in session.pending if item.type == "thinking_level_change"]
        if session.level_set is None or session.level_set > place:
            note = session.expect("thinking_level_change")
            if changes:  # by commands that came later
                session.pending.remove(note)
                session.pending.insert(session.pending.index(changes[0]), note)

    def _on_set_steering_mode(self, sent: Sent, data: Any) -> None:
        if sent.success:
            self.config.modes["steering"] = {sent.command["mode"], self.saved["steeringMode"]}

    def _on_set_follow_up_mode(self, sent: Sent, data: Any) -> None:
        if sent.success:
            self.config.modes["followUp"] = {sent.command["mode"], self.saved["followUpMode"]}

    def _on_set_auto_retry(self, sent: Sent, data: Any) -> None:
        if sent.success:
            self.config.retry = {sent.command["enabled"], self.saved["retry"]["enabled"]}

    def _on_set_auto_compaction(self, sent: Sent, data: Any) -> None:
        if sent.success:
            self.config.compaction = {sent.command["enabled"], self.auto_compaction}

    def _on_cycle_model(self, sent: Sent, data: Any) -> None:
        found = data["model"]["id"], data["thinkingLevel"]
        good = sent.predicted in (None, found)
        require(good, Rule.SETTINGS, f"cycle_model returned {found}, expected {sent.predicted}")

    def _on_cycle_thinking_level(self, sent: Sent, data: Any) -> None:
        found = data and data["level"]
        require(found == sent.predicted, Rule.SETTINGS, f"cycle_thinking_level: {found}, expected {sent.predicted}")

    def _on_set_budget(self, sent: Sent, data: Any) -> None:
        if sent.success:
            require(data["maxTurns"] == sent.command.get("maxTurns"), Rule.RETURNED, short(data))
