"""DescribeConfigs v1-v4, AlterConfigs v0-v2, IncrementalAlterConfigs v0-v1, ListConfigResources v0-v1.

Settings of topics and groups can be read and changed. Broker settings can only be read: they are the daemon's own
settings under Kafka's names and change only with a restart, as `read_only` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coordinatord.cluster.nodes import Nodes
from coordinatord.config import TABLE as BROKER_TABLE
from coordinatord.config import Settings
from coordinatord.config.kinds import Setting
from coordinatord.topics.catalogue import Catalogue, Topic
from coordinatord.topics.config_table import INT_MAX, TABLE, ConfigSource, ConfigType, InvalidConfig
from coordinatord.topics.configs import Configs, Synonym, is_set, own_synonyms, row_of, text_of
from coordinatord.topics.group_configs import TABLE as GROUP_TABLE
from coordinatord.topics.group_configs import GroupConfigs, TooManyGroups
from coordinatord.topics.names import why_invalid
from kafka_wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_wire.api.alter_configs import AlterConfigsResourceResponse as Altered
from kafka_wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafka_wire.api.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementallyAltered,
)
from kafka_wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kafka_wire.api.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.net.request import RequestContext

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32
"""`resource_type`, Kafka's ConfigResource.Type."""

LISTED = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
"""Resource types of ListConfigResources, in response order; client metrics and loggers have no resources here."""

SET, DELETE, APPEND, SUBTRACT = range(4)
"""`config_operation`."""

_OPERATIONS = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

Failure = tuple[ErrorCode, str | None]
"""(error, message): why a resource is rejected."""

Changes = list[tuple[str, int, str | None]]
"""(name, operation, value)"""


class ConfigApis:
    """The handlers."""

    def __init__(self, settings: Settings, catalogue: Catalogue, groups: GroupConfigs, nodes: Nodes) -> None:
        self.settings = settings
        self.catalogue = catalogue
        self.groups = groups
        self.nodes = nodes
        self.node_id = nodes.node_id

    def handlers(self) -> dict[int, Any]:
        """By api key."""
        return {
            ApiKey.DESCRIBE_CONFIGS: self.describe_configs,
            ApiKey.ALTER_CONFIGS: self.alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.incremental_alter_configs,
            ApiKey.LIST_CONFIG_RESOURCES: self.list_config_resources,
        }

    # Describing

    def describe_configs(self, _context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """Each resource is answered independently."""
        return DescribeConfigsResponse(0, [self._describe(resource, request) for resource in request.resources])

    def _describe(self, resource: DescribeConfigsResource, request: DescribeConfigsRequest) -> DescribeConfigsResult:
        found = self._entries(resource, request)
        if isinstance(found, list):
            return DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name, found)
        error, message = found
        return DescribeConfigsResult(error, message, resource.resource_type, resource.resource_name)

    def _entries(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> list[DescribeConfigsResourceResult] | Failure:
        name = resource.resource_name
        wanted = frozenset(resource.configuration_keys or ())
        if resource.resource_type == TOPIC:
            topic = self._topic(name)
            if not isinstance(topic, Topic):
                # Kafka gives no message here.
                return topic if topic[0] is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else (topic[0], "")
            return [self._topic_entry(topic.configs, each, request) for each in TABLE if not wanted or each in wanted]
        if resource.resource_type == BROKER:
            failure = self._wrong_broker(name)
            if failure is not None:
                return failure
            if not name:
                return []  # cluster-wide broker settings: there are none
            rows = [row for row in BROKER_TABLE.values() if not wanted or row.name in wanted]
            return [self._broker_entry(row, request) for row in rows]
        if resource.resource_type == GROUP:
            if not name:
                return ErrorCode.INVALID_REQUEST, "Group name must not be empty"
            self.groups.refresh()
            return [self._group_entry(name, each, request) for each in GROUP_TABLE if not wanted or each in wanted]
        return ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"

    def _topic_entry(
        self, configs: Configs, name: str, request: DescribeConfigsRequest
    ) -> DescribeConfigsResourceResult:
        row = TABLE[name]
        synonyms = configs.synonyms(row)
        return DescribeConfigsResourceResult(
            name,
            text_of(configs.value(name)),
            False,
            synonyms[0].source if synonyms else ConfigSource.DEFAULT,
            False,
            _shown(synonyms) if request.include_synonyms else [],
            row.type,
            _documentation(row.doc, row.has_effect) if request.include_documentation else None,
        )

    def _group_entry(self, group_id: str, name: str, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
        row = GROUP_TABLE[name]
        synonyms = self.groups.synonyms(group_id, row)
        return DescribeConfigsResourceResult(
            name,
            self.groups.value(group_id, row),
            False,
            synonyms[0].source,
            False,
            _shown(synonyms) if request.include_synonyms else [],
            row.type,
            row.doc if request.include_documentation else None,
        )

    def _broker_entry(self, row: Setting, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
        value = getattr(self.settings, row.attribute)
        source = ConfigSource.STATIC_BROKER if is_set(self.settings, row.name) else ConfigSource.DEFAULT
        return DescribeConfigsResourceResult(
            row.name,
            None if value is None else text_of(value),
            True,
            source,
            False,
            _shown(own_synonyms(self.settings, row.name)) if request.include_synonyms else [],
            _type_of(row, value),
            _documentation(row.doc, not row.not_yet) if request.include_documentation else None,
        )

    def list_config_resources(
        self, context: RequestContext, request: ListConfigResourcesRequest
    ) -> ListConfigResourcesResponse:
        """v0 lists only client metrics; since v1 an empty list of types means all types."""
        known = LISTED if context.api_version >= 1 else (CLIENT_METRICS,)
        wanted = request.resource_types or known
        if not set(wanted) <= set(known):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        listed = [ConfigResource(name, kind) for kind in known if kind in wanted for name in self._names(context, kind)]
        return ListConfigResourcesResponse(config_resources=listed)

    def _names(self, context: RequestContext, kind: int) -> Iterable[str]:
        if kind == TOPIC:
            self.catalogue.refresh()
            return self.catalogue.by_name
        if kind == BROKER:
            return [str(node.node_id) for node in self.nodes.alive(context.connection.listener)]
        if kind == GROUP:
            self.groups.refresh()
            return self.groups.group_ids
        return ()

    # Changing

    def alter_configs(self, _context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Replace a resource's own settings with exactly those of the request."""
        responses = []
        counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
        for each in request.resources:
            key = each.resource_type, each.resource_name
            changes: Changes = [(config.name, SET, config.value) for config in each.configs]
            error, message = self._change(*key, counts[key], changes, replace=True, dry_run=request.validate_only)
            responses.append(Altered(error, message, *key))
        return AlterConfigsResponse(0, responses)

    def incremental_alter_configs(
        self, _context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        """KIP-339: change individual settings; list settings can be appended to and subtracted from."""
        responses = []
        counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
        for each in request.resources:
            key = each.resource_type, each.resource_name
            changes: Changes = [(config.name, config.config_operation, config.value) for config in each.configs]
            error, message = self._change(*key, counts[key], changes, replace=False, dry_run=request.validate_only)
            responses.append(IncrementallyAltered(error, message, *key))
        return IncrementalAlterConfigsResponse(0, responses)

    def _change(
        self,
        resource_type: int,
        name: str,
        count: int,
        changes: Changes,
        *,
        replace: bool,
        dry_run: bool,
    ) -> Failure:
        if count > 1:
            return ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
        failure = _malformed(changes)
        if failure is not None:
            return failure
        if resource_type == BROKER:
            return self._wrong_broker(name) or _fixed(changes)
        if resource_type == GROUP:
            return self._change_group(name, changes, replace=replace, dry_run=dry_run)
        if resource_type != TOPIC:
            return ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}"
        if not name:
            return ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."
        with self.catalogue.changing():
            return self._change_topic(name, changes, replace=replace, dry_run=dry_run)

    def _change_topic(self, name: str, changes: Changes, *, replace: bool, dry_run: bool) -> Failure:
        topic = self._topic(name)
        if not isinstance(topic, Topic):
            return topic
        try:
            own = _changed(topic.configs, {} if replace else topic.configs.own, changes)
            configs = Configs(self.settings, own)
        except InvalidConfig as error:
            return ErrorCode.INVALID_CONFIG, str(error)
        if not dry_run and own != topic.configs.own:
            try:
                self.catalogue.configure(topic, configs)
            except OSError as error:
                return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        return ErrorCode.NONE, None

    def _change_group(self, group_id: str, changes: Changes, *, replace: bool, dry_run: bool) -> Failure:
        if not group_id:
            return ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
        if len(group_id.encode()) > self.settings.group_id_max_bytes:
            return ErrorCode.INVALID_REQUEST, f"The group id has more than {self.settings.group_id_max_bytes} bytes."
        with self.catalogue.changing():
            self.groups.refresh()
            return self._changed_group(group_id, changes, replace=replace, dry_run=dry_run)

    def _changed_group(self, group_id: str, changes: Changes, *, replace: bool, dry_run: bool) -> Failure:
        groups = self.groups
        own = {} if replace else dict(groups.own(group_id))
        try:
            for name, operation, value in changes:
                if operation == DELETE:
                    own.pop(name, None)
                elif operation == SET:
                    own[name] = value or ""
                else:
                    raise _not_a_list(operation, name)
            groups.check(own)
            if not dry_run and own != groups.own(group_id):
                groups.configure(group_id, own)
        except InvalidConfig as error:
            return ErrorCode.INVALID_CONFIG, str(error)
        except TooManyGroups:
            return ErrorCode.POLICY_VIOLATION, f"{len(groups)} groups have settings, max.groups allows no more."
        except OSError as error:
            return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        return ErrorCode.NONE, None

    def _topic(self, name: str) -> Topic | Failure:
        reason = why_invalid(name)
        if reason is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, reason
        topic = self.catalogue.by_name.get(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        return topic

    def _wrong_broker(self, name: str) -> Failure | None:
        """The failure unless a broker resource is named by this node's id, or empty for all brokers."""
        if not name:
            return None
        digits = name.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            return ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name[:100]}"
        if len(digits) > 10 or int(name) != self.node_id:
            message = f"Unexpected broker id, expected {self.node_id} or empty string, but received {name[:100]}"
            return ErrorCode.INVALID_REQUEST, message
        return None


def _fixed(changes: Changes) -> Failure:
    if not changes:
        return ErrorCode.NONE, None
    return ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {_names(changes)}"


def _malformed(changes: Changes) -> Failure | None:
    if len({name for name, _, _ in changes}) < len(changes):
        return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    nulls = [name for name, operation, value in changes if value is None and operation != DELETE]
    if nulls:
        return ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
    unknown = [operation for _, operation, _ in changes if not SET <= operation <= SUBTRACT]
    if unknown:
        return ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown[0]}"
    return None


def _changed(configs: Configs, own: Mapping[str, str], changes: Changes) -> dict[str, str]:
    """A topic's own settings after the changes."""
    changed = dict(own)
    for name, operation, value in changes:
        if operation == DELETE:
            changed.pop(name, None)
        elif operation == SET:
            changed[name] = value or ""
        else:
            row = row_of(name)
            if row.type is not ConfigType.LIST:
                raise _not_a_list(operation, name)
            items = [item for item in text_of(configs.value(name)).split(",") if item]
            for item in (value or "").split(","):
                if operation == APPEND and item not in items:
                    items.append(item)
                elif operation == SUBTRACT and item in items:
                    items.remove(item)
            changed[name] = ",".join(items)
    return changed


def _not_a_list(operation: int, name: str) -> InvalidConfig:
    return InvalidConfig(f"Can't {_OPERATIONS[operation]} to key {name} because its type is not LIST.")


def _names(changes: Changes) -> str:
    return ", ".join(name for name, _, _ in changes)


def _shown(synonyms: Iterable[Synonym]) -> list[DescribeConfigsSynonym]:
    return [DescribeConfigsSynonym(each.name, each.value, each.source) for each in synonyms]


def _documentation(doc: str, has_effect: bool) -> str:
    return doc if has_effect else f"{doc} Stored, without effect here."


def _type_of(row: Setting, value: object) -> ConfigType:
    """Kafka's nearest config type."""
    sample = value if value is not None else row.default
    if isinstance(sample, bool):
        return ConfigType.BOOLEAN
    if isinstance(sample, float):
        return ConfigType.DOUBLE
    if isinstance(sample, tuple):
        return ConfigType.LIST
    if isinstance(sample, int) or row.kind.startswith("int"):
        return ConfigType.LONG if isinstance(sample, int) and sample > INT_MAX else ConfigType.INT
    return ConfigType.STRING
