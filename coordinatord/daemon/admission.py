"""Assembles what decides who may do what: the authorizer, its records in the metadata log, the rules before handlers.

Without `authorizer.class.name` there are no rules, and hardly a module is imported.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from coordinatord.config import Settings
from coordinatord.metadata.log import MetadataLog
from coordinatord.net.by_need import Handlers, by_need
from coordinatord.net.routes import ShortcutMaker
from coordinatord.topics import Topics
from kafka_wire.api_key import ApiKey

if TYPE_CHECKING:
    from coordinatord.security.authorizer import Authorizer

ACL_APIS = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
ACL_RECORDS = (18, 19)
"""Types of the records that add and remove an ACL."""


class Admission:
    """See the module."""

    def __init__(self, settings: Settings, metadata: MetadataLog) -> None:
        self._settings = settings
        self._metadata = metadata
        self.is_on = bool(settings.authorizer_class_name)
        metadata.keep(lambda: self.authorizer, *ACL_RECORDS)

    @cached_property
    def authorizer(self) -> Authorizer:
        """It keeps the log's ACLs also if nobody asks it."""
        from coordinatord.security.authorizer import Authorizer

        settings = self._settings
        return Authorizer(settings.super_users, allow_if_no_acl=settings.allow_everyone_if_no_acl_found)

    def handlers(self, handlers: Mapping[int, Any], topics: Topics) -> dict[int, Any]:
        """These handlers and those of ACLs, behind the rules if there are any."""

        def acls() -> Handlers:
            from coordinatord.admission.acls import AclApis

            return AclApis(self.authorizer if self.is_on else None, self._metadata, lambda: secrets.token_bytes(16))

        found = {**handlers, **by_need(ACL_APIS, acls)}
        if not self.is_on:
            return found
        from coordinatord.admission.guard import guarded

        return guarded(found, self.authorizer, topics, creates_topics=self._settings.auto_create_topics_enable)

    def shortcuts(self, shortcuts: Mapping[int, ShortcutMaker]) -> Mapping[int, ShortcutMaker]:
        """Shortcuts know no permissions."""
        return {} if self.is_on else shortcuts
