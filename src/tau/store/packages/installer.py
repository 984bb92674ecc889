"""Installs, updates and removes packages of one scope.

An installation is complete on disk before settings name it, so a failure leaves settings as they were. The lock entry
of a new state is written before the state replaces the old one (see lock_file.py).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tau.core.packages.sources import GitSource, LocalSource, NpmSource, Source
from tau.core.packages.versions import parse_version
from tau.records.base import UNSET, Value, replace
from tau.store.files import make_folder
from tau.store.packages.busy import WAIT_S, exclusive
from tau.store.packages.configured import ConfiguredPackage
from tau.store.packages.digests import content_digest
from tau.store.packages.errors import NewerInstalled, PackageError
from tau.store.packages.git import GitFolder
from tau.store.packages.layout import Layout
from tau.store.packages.lock_file import LockEntry, change_lock, read_lock
from tau.store.packages.marks import quick_mark
from tau.store.packages.npm import IGNORED_BY_GIT, NpmProgram, NpmRoot, NpmState
from tau.store.packages.npm_lock import Packages, with_scripts
from tau.store.packages.offers import PackageFolder
from tau.store.packages.staging import remove_leftovers
from tau.store.upcoming_changes import Expect, UpcomingChange

logger = logging.getLogger(__name__)
Show = Callable[[str], None]


class Installation(Value):
    """What an installation brought. `scripts` are the packages whose install scripts were not run."""

    folder: Path
    version: str | None = None  # or a commit
    dependencies: int = 0
    scripts: Sequence[str] = ()
    changed: bool = True


class Installer:
    """`expect` is called before each step that changes what trust in a project covers."""

    def __init__(
        self,
        layout: Layout,
        npm_command: Sequence[str] | None,
        show: Show,
        wait: float = WAIT_S,
        expect: Expect | None = None,
    ) -> None:
        self.layout = layout
        self._expect: Expect = expect or (lambda change: None)
        self._npm = NpmProgram(tuple(npm_command or ("npm",)), show)
        self._show = show
        self._wait = wait

    def install(
        self,
        source: Source,
        save: Callable[[], object],
        *,
        allowed_scripts: Sequence[str] = (),
        dry_run: bool = False,
        force: bool = False,
    ) -> Installation:
        """Install a package, then call `save`, which writes settings. Raises PackageError or OSError."""
        with exclusive(self.layout.base, self._wait):
            self._clean(source)
            match source:
                case LocalSource():
                    done = self._local(source)
                case NpmSource():
                    done = self._install_npm([source], allowed_scripts, dry_run=dry_run)[source.name]
                case GitSource():
                    done = self._install_git(source, allowed_scripts, dry_run=dry_run, force=force)
            if not dry_run:
                save()
        return done

    def remove(self, source: Source, save: Callable[[], object]) -> None:
        """Remove a package. `save` removes it from settings, before its folder. Raises PackageError or OSError."""
        with exclusive(self.layout.base, self._wait):
            self._clean(source)
            if isinstance(source, NpmSource) and os.path.exists(self.layout.folder(source)):
                self._remove_npm(source.name, save)
            else:
                save()
            if isinstance(source, GitSource):
                self._expect(UpcomingChange(folders={self.layout.folder(source): None}))
                self._repository(source).remove()
            identity = self.layout.identity(source)
            self._change_lock(lambda entries: {k: v for k, v in entries.items() if k != identity})

    def update(self, packages: Sequence[ConfiguredPackage], *, force: bool = False) -> dict[str, Installation | str]:
        """Update what is not pinned; a repository with a ref is made to fit it. Returns results by source.

        One that fails leaves what worked, and the others go on: its result is the reason.
        """
        results: dict[str, Installation | str] = {}
        with exclusive(self.layout.base, self._wait):
            of_npm = [one.source for one in packages if isinstance(one.source, NpmSource) and not one.source.pinned]
            results |= self._update_npm(of_npm)
            for source in (one.source for one in packages if isinstance(one.source, GitSource)):
                self._clean(source)
                try:
                    results[source.text] = self._install_git(source, (), force=force)
                except (PackageError, OSError) as error:
                    results[source.text] = _reason(error)
        return results

    def _update_npm(self, sources: Sequence[NpmSource]) -> dict[str, Installation | str]:
        """Update all at once or, if that fails, one by one."""
        if not sources:
            return {}
        self._clean(sources[0])
        try:
            done = self._install_npm(sources, (), newest=True)
            return {source.text: done[source.name] for source in sources}
        except (PackageError, OSError) as error:
            if len(sources) == 1:
                stays = isinstance(error, NewerInstalled)
                version = self._installed_version(sources[0])
                kept = Installation(self.layout.folder(sources[0]), version, changed=False)
                return {sources[0].text: kept if stays else _reason(error)}
        results: dict[str, Installation | str] = {}
        for source in sources:
            results |= self._update_npm([source])
        return results

    def _clean(self, source: Source) -> None:
        root = self.layout.root(source)
        if root is not None:
            beside_root = Path(os.path.realpath(root)).parent
            remove_leftovers(*dict.fromkeys((self.layout.base, beside_root, self.layout.folder(source).parent)))

    def _local(self, source: LocalSource) -> Installation:
        folder = self.layout.folder(source)
        if not os.path.exists(folder):
            raise PackageError(f"There is no {folder}.")
        return Installation(folder)

    # npm

    def _install_npm(
        self,
        sources: Sequence[NpmSource],
        allowed_scripts: Sequence[str],
        *,
        dry_run: bool = False,
        newest: bool = False,
    ) -> dict[str, Installation]:
        root = NpmRoot(self.layout.npm, self._npm)
        if not self._npm.is_npm:
            return self._install_in_place(root, sources, allowed_scripts, dry_run=dry_run, newest=newest)
        before = {source.name: self._installed_version(source) for source in sources}
        with root.staged() as staging:
            specs = [f"{source.name}@latest" if newest and not source.version else source.spec for source in sources]
            state = root.resolve(staging, specs)
            if newest:
                _refuse_downgrades(state, before)
            for source in sources:
                if state.version(source.name) is None:
                    raise PackageError(f"{source.text}: npm installs no package with the name {source.name}.")
            is_same = newest and all(state.version(name) == version for name, version in before.items())
            if not dry_run and not is_same:
                root.fetch(state, allowed_scripts)
                self._announce(sources, state, allowed_scripts)
                self._expect(UpcomingChange(folders={self.layout.npm: state.folder}))
                root.commit(staging)
                self._settle([source.identity for source in sources])
        return {
            source.name: Installation(
                self.layout.folder(source),
                state.version(source.name),
                len(state.needs(source.name)),
                [name for name in state.scripts(source.name) if name not in allowed_scripts],
                state.version(source.name) != before[source.name],
            )
            for source in sources
        }

    def _install_in_place(
        self,
        root: NpmRoot,
        sources: Sequence[NpmSource],
        allowed_scripts: Sequence[str],
        *,
        dry_run: bool,
        newest: bool,
    ) -> dict[str, Installation]:
        if dry_run or allowed_scripts:
            raise PackageError(f"--dry-run and --allow-scripts need npm; npmCommand names {self._npm.manager}.")
        before = {source.name: self._installed_version(source) for source in sources}
        root.install_in_place(
            [f"{source.name}@latest" if newest and not source.version else source.spec for source in sources]
        )
        found = {}
        for source in sources:
            folder = self.layout.folder(source)
            entry = self._entry(source, folder, LockEntry(version=self._installed_version(source) or UNSET))
            self._write_next(source, entry)
            version = self._installed_version(source)
            found[source.name] = Installation(folder, version, changed=version != before[source.name])
        self._settle([source.identity for source in sources])
        return found

    def _remove_npm(self, name: str, save: Callable[[], object]) -> None:
        root = NpmRoot(self.layout.npm, self._npm)
        if not self._npm.is_npm:
            save()
            root.remove_in_place(name)
            return
        with root.staged() as staging:
            root.remove(staging, name)
            save()
            self._expect(UpcomingChange(folders={self.layout.npm: staging / "npm"}))
            root.commit(staging)

    def _installed_version(self, source: NpmSource) -> str | None:
        version = PackageFolder(self.layout.folder(source)).manifest.get("version")
        return version if isinstance(version, str) else None

    # git

    def _repository(self, source: GitSource) -> GitFolder:
        return GitFolder(source, self.layout.folder(source), self.layout.git, self._npm, self._show)

    def _install_git(
        self, source: GitSource, allowed_scripts: Sequence[str], *, dry_run: bool = False, force: bool = False
    ) -> Installation:
        repository = self._repository(source)
        if dry_run:
            return Installation(repository.folder)
        before = repository.commit_id()

        def announce(copy: Path, packages: Packages) -> None:
            at = GitFolder(source, copy, self.layout.git, self._npm, self._show).commit_id()
            scripts = with_scripts(packages)
            built = [name for name in scripts if name in allowed_scripts]
            new = self._entry(source, copy, LockEntry(commit=at or UNSET, scripts=scripts, built=built))
            self._write_next(source, new)
            self._expect(UpcomingChange(folders={repository.folder: copy}))

        if not os.path.exists(repository.folder):
            self._ignore_repositories()
        packages = repository.install(allowed_scripts, force=force, before=announce)
        if packages is None and source.identity not in read_lock(self.layout.lock_file):
            announce(repository.folder, {})
        self._settle([source.identity])
        commit = repository.commit_id()
        scripts = [name for name in with_scripts(packages or {}) if name not in allowed_scripts]
        return Installation(repository.folder, commit, len(packages or ()), scripts, commit != before)

    def _ignore_repositories(self) -> None:
        """Let git ignore the folder of repositories, as pi does."""
        file = self.layout.git / ".gitignore"
        if not os.path.exists(file):
            make_folder(file.parent)
            self._expect(UpcomingChange(files={file: IGNORED_BY_GIT.encode()}))
            file.write_text(IGNORED_BY_GIT)

    # packages.lock.json

    def _change_lock(self, change: Callable[[dict[str, LockEntry]], Mapping[str, LockEntry]]) -> None:
        change_lock(self.layout.lock_file, change, lambda file, data: self._expect(UpcomingChange({file: data})))

    def _announce(self, sources: Sequence[NpmSource], state: NpmState, built: Sequence[str]) -> None:
        for source in sources:
            scripts = state.scripts(source.name)
            facts = LockEntry(
                version=state.version(source.name) or UNSET,
                integrity=state.integrity(source.name) or UNSET,
                scripts=scripts,
                built=[name for name in scripts if name in built],
            )
            self._write_next(source, self._entry(source, state.folder / "node_modules" / source.name, facts))

    def _entry(self, source: Source, folder: Path, facts: LockEntry) -> LockEntry:
        try:
            files, mark = content_digest(folder), quick_mark(folder)
        except ValueError:  # too many files: they are not checked
            files, mark = "", ""
        return LockEntry(
            files=files or UNSET,
            mark=mark or UNSET,
            version=facts.version,
            integrity=facts.integrity,
            commit=facts.commit,
            scripts=facts.scripts,
            built=facts.built,
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            source=source.text,
        )

    def _write_next(self, source: Source, new: LockEntry) -> None:
        """Record a state that is about to replace the one on disk; both are valid until `_settle`."""
        identity = self.layout.identity(source)

        def change(entries: dict[str, LockEntry]) -> dict[str, LockEntry]:
            before = entries.get(identity, LockEntry(source=source.text))
            return {**entries, identity: replace(before, next=new)}

        self._change_lock(change)

    def _settle(self, identities: Sequence[str]) -> None:
        """Keep only the new state of these packages."""

        def change(entries: dict[str, LockEntry]) -> dict[str, LockEntry]:
            for identity in identities:
                entry = entries.get(identity)
                if entry is not None and isinstance(entry.next, LockEntry):
                    entries[identity] = entry.next
            return entries

        self._change_lock(change)


def _refuse_downgrades(state: NpmState, before: Mapping[str, str | None]) -> None:
    """A tag may name an older version than the installed one, which the user may have wanted: it stays."""
    for name, installed in before.items():
        old, new = parse_version(installed or ""), parse_version(state.version(name) or "")
        if old is not None and new is not None and new.order < old.order:
            raise NewerInstalled(f"{name} {installed} is newer than {state.version(name)}, the latest one.")


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def install_missing(package: ConfiguredPackage, npm_command: Sequence[str] | None) -> str:
    """Install a package that settings name, at a start; returns the problem, or ""."""
    logger.warning("installing %s", package.text)
    try:
        Installer(package.layout, npm_command, lambda line: logger.info("%s", line)).install(
            package.source, lambda: None
        )
    except (PackageError, OSError) as error:
        return f"{package.text} is not installed: {_reason(error)}"
    return ""
