package config

import (
	"fmt"
	"strings"

	"swh-scheduler/internal/hints"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/rpc/door"
)

// These are the readers of several keys. The page says which daemons and commands send.
const (
	everybody  = "all daemons and commands"
	onDatabase = "all daemons and commands that connect to the database"
	senders    = "daemons and commands that send"
	withBroker = senders + ", `start-listener`, `dashboard`, `queue status`, `lanes status`, `explain`, `config check`"
	ofRPC      = "`rpc-serve`, `config check`"
	ofSite     = "`dashboard`, `rpc-serve` with `dashboard.in_rpc_serve`, `config check`"
	ofJournal  = "`journal-client`, `config check`"
	ofPolicies = "`schedule-recurrent`, `migrate`, `explain`, `shares status`, `dashboard`, `simulator run`, `config check`"
	ofDaemons  = "all daemons"
)

// pythons are the sections that the Python scheduler has too.
var pythons = strings.Fields("scheduler celery journal scheduling_policy no_origins_scheduled_backoff")

// ours are our keys in sections of the Python scheduler.
var ours = strings.Fields(`journal.prefix scheduling_policy.VISIT_TYPE.exact scheduling_policy.VISIT_TYPE.forks
	scheduling_policy.VISIT_TYPE.longest_wait`)

// reference is the table of the keys, in the order of the page.
var reference = []keyOfReference{
	{key: "scheduler", about: "The database, or the RPC server through which daemons and commands use it.", otherwise: required, readers: everybody},
	{key: "scheduler.cls", about: "`postgresql` and `local` connect to a database, `remote` to an RPC server.", is: "`postgresql`, `local` or `remote`", otherwise: required},
	{key: "scheduler.db", about: "The database, as a libpq DSN or URI; required unless `cls` is `remote`. See [the database's address](#the-databases-address)."},
	{key: "scheduler.url", about: "The RPC server; required if `cls` is `remote`. Daemons connect to the database through its [door](rpc.md#the-door)."},
	{key: "scheduler.max_pool_conns", about: "The most connections to the database. The pages of the dashboard have six.", otherwise: "`10`", readers: onDatabase},
	{key: "scheduler.session_kwargs", about: "Credentials for the RPC server, by the names of Python's `requests`. Credentials in `url` exclude `auth` and `headers`.", readers: "all daemons and commands with `cls: remote`"},
	{key: "scheduler.session_kwargs.cert", about: "A PEM file with a client's certificate and its key, or a list of two files. They are read for each connection.", is: "text, or list of two texts"},
	{key: "scheduler.session_kwargs.verify", about: "A PEM file with the authorities of the server's certificate. `false` is an error.", otherwise: "the system's authorities"},
	{key: "scheduler.session_kwargs.auth", about: "The user and the password of HTTP basic authentication.", is: "list of two texts (secret)", otherwise: "none"},
	{key: "scheduler.session_kwargs.headers", about: "The header `Authorization`, such as `Bearer TOKEN`. Other headers are not sent, with a warning.", is: "mapping of names to texts (secret)", otherwise: "none"},

	{key: "database", about: "Further addresses of the database in `scheduler.db`. `--database` replaces this section, too.", readers: onDatabase},
	{key: "database.direct", about: "The server itself, where `scheduler.db` names a [PgBouncer](#pgbouncer-and-replicas) in transaction mode."},
	{key: "database.replica", about: "A [replica](#pgbouncer-and-replicas) for commands that only read.", readers: "`dashboard`, `explain`, `forecast`, `shares status`, `lanes status`, `hosters status`, `hosters reset` and `lister gone` without `--confirm`, `lister weight` without `--set`, `task list`, `task list-pending`, `task-type list`, `task graph list`, `task graph status`, `task graph show`, `origin peek-next`, `origin check-listed-origins`, `origin check-ingested-origins`"},

	{key: "celery", about: "Celery's settings for the broker and for messages. [Settings of Celery](#settings-of-celery) has all but `task_broker`.", is: "mapping", readers: withBroker + ", `celery-monitor`, `task revoke`, `task-type register`"},
	{key: "celery.task_broker", about: "The broker's URL; several, separated by `;`, for failover. Parameters of a URL take precedence over other settings.", otherwise: required + " for what sends to or reads from the broker"},

	{key: "rabbitmq", about: "The management API of the broker.", readers: withBroker},
	{key: "rabbitmq.management_url", about: "The root of the management API.", otherwise: "host of the broker, its port + 10000; `https` with `amqps` or `broker_use_ssl`, else `http`"},
	{key: "rabbitmq.stats_age", about: "How old figures of the management API may be, from 1 second to 4 minutes. Set it to twice RabbitMQ's `collect_statistics_interval`, and 2 seconds."},

	{key: "journal", about: "The journal in Kafka. [Settings of the journal client](#settings-of-the-journal-client) has further keys.", readers: ofJournal},
	{key: "journal.brokers", about: "Kafka's brokers, as `host:port`.", otherwise: required},
	{key: "journal.group_id", about: "The consumer group.", otherwise: required},
	{key: "journal.prefix", about: "The prefix of topics."},
	{key: "journal.privileged", about: "`true` reads the topic for privileged readers, whose prefix ends with `_privileged`."},
	{key: "journal.batch_size", about: "The most records of a batch. A number below 10,000 has no effect.", otherwise: "`10000`"},
	{key: "journal.create_topics", about: "`true` creates a missing topic, with one partition and no replicas. Don't use it in production."},
	{key: "journal.auto_offset_reset", about: "Where a new group starts.", is: "`earliest` or `latest`"},
	{key: "journal.on_eof", about: "What happens at the end of the topic.", is: "`continue`, `stop` or `restart`"},
	{key: "journal.stop_on_eof", about: "Deprecated: write `on_eof: stop`.", is: "true or false", otherwise: "`false`"},
	{key: "journal.stop_after_objects", about: "The number of records after which the client stops; 0 is never.", otherwise: "`0`"},
	{key: "journal.consumer_settings", about: "Kafka's settings, by librdkafka's names. `KAFKA_GROUP_INSTANCE_ID` in the environment sets `group.instance.id`.", is: "mapping of names to texts, numbers, true or false (secret)"},

	{key: "rpc_serve", about: "The RPC server: TLS, clients and limits. Without it, the server uses HTTP without credentials. [secure.md](../how-to/secure.md) has the steps.", readers: ofRPC},
	{key: "rpc_serve.tls_certificate", about: "A PEM file, from the directory of the configuration. The server reads it again when it changes."},
	{key: "rpc_serve.tls_key", about: "The key of `tls_certificate`."},
	{key: "rpc_serve.client_ca", about: "A PEM file with the authorities of clients' certificates."},
	{key: "rpc_serve.open", about: "`true` confirms that whoever reaches the port may make all calls. It excludes credentials."},
	{key: "rpc_serve.clients", about: "Who may make which calls. The server reads the list again when the file changes."},
	{key: "rpc_serve.clients.name", about: "A name for logs and metrics: up to 63 letters, digits, dots, dashes and underscores.", otherwise: required},
	{key: "rpc_serve.clients.token_sha256", about: "The SHA-256 of a bearer token in hexadecimal digits (`printf %s TOKEN | sha256sum`); two, while one replaces the other. A client needs one credential or more.", otherwise: "none"},
	{key: "rpc_serve.clients.user", about: "The user of HTTP basic authentication, with `password_hash`.", otherwise: "`name`"},
	{key: "rpc_serve.clients.password_hash", about: "A hash of argon2id or bcrypt (`swh-scheduler config hash-password`); up to two."},
	{key: "rpc_serve.clients.certificate", about: "A name of the client's certificate: `DNS:…`, `URI:…`, `email:…` or `CN:…`; up to two. It needs `client_ca`."},
	{key: "rpc_serve.clients.roles", about: "[Which calls](../how-to/secure.md) it may make.", is: "list of `" + strings.Join(Roles, "`, `") + "`", otherwise: required},
	{key: "rpc_serve.clients.listers", about: "The listers of the role `lister`, as `NAME/INSTANCE`. `*` matches any text.", otherwise: required + " for the role `lister`"},
	{key: "rpc_serve.clients.task_types", about: "The task types of which the role `web` may create tasks. `*` matches any text.", otherwise: "none"},
	{key: "rpc_serve.clients.daemons", about: "The daemons of the role `daemon`. It excludes `door.db`.", is: "list of `" + strings.Join(model.DoorDaemons, "`, `") + "`", otherwise: "all"},
	{key: "rpc_serve.token", about: "A bearer token for all calls. Python clients send it with `session_kwargs: {headers: {Authorization: Bearer TOKEN}}`."},
	{key: "rpc_serve.username", about: "A user of HTTP basic authentication for all calls. Python clients send it with `session_kwargs: {auth: [USER, PASSWORD]}`."},
	{key: "rpc_serve.password", about: "The password of `username`."},
	{key: "rpc_serve.max_body_size", about: "The most bytes of a request, decompressed. [Memory](#memory) has the other bounds."},
	{key: "rpc_serve.door", about: "The [door](rpc.md#the-door): connections to the database for daemons with `cls: remote`."},
	{key: "rpc_serve.door.db", about: "The database as a user with the rights of daemons, instead of the role that `migrate --door` creates. It is not a pooler's address."},
	{key: "rpc_serve.door.max_connections", about: "The most connections in all. PostgreSQL's `max_connections` must leave room for them.", otherwise: fmt.Sprintf("`%d`", door.DefaultConnections)},
	{key: "rpc_serve.door.max_per_client", about: "The most connections with one `application_name` and user name.", otherwise: fmt.Sprintf("`%d`", door.DefaultPerClient)},
	{key: "rpc_serve.door.max_per_address", about: "The most connections from one address. Clients behind a proxy have its address, unless `dashboard.proxy.addresses` names it.", otherwise: fmt.Sprintf("`%d`", door.DefaultPerAddress)},

	{key: "dashboard", about: "The [dashboard](dashboard.md): who may read, and who may act. Without it, whoever reaches the port may read.", readers: ofSite},
	{key: "dashboard.in_rpc_serve", about: "`true` serves the dashboard in `rpc-serve`, too, under `/dashboard/`."},
	{key: "dashboard.require_login", about: "`true` requires a login to read, too."},
	{key: "dashboard.hosts", about: "Host names in browsers' requests, such as a proxy's, besides `--host` and the machine's names."},
	{key: "dashboard.tls_certificate", about: "A PEM file of the command `dashboard`, as in `rpc_serve`.", readers: "`dashboard`, `config check`"},
	{key: "dashboard.tls_key", about: "The key of `tls_certificate`."},
	{key: "dashboard.users", about: "People and programs that may log in.", readers: ofSite},
	{key: "dashboard.users.name", about: "The name, of up to 64 bytes.", otherwise: required},
	{key: "dashboard.users.password_hash", about: "A hash of argon2id or bcrypt (`swh-scheduler config hash-password`). A user needs it, or `token_sha256`."},
	{key: "dashboard.users.token_sha256", about: "The SHA-256 of a program's bearer token in hexadecimal digits.", otherwise: "none"},
	{key: "dashboard.users.roles", about: "`view` reads, `tasks` and `graphs` act on these. With one of the latter, `terminate` also kills what runs.", is: "list of `view`, `tasks`, `graphs`, `terminate`", otherwise: required},
	{key: "dashboard.reports", about: "A directory of simulator reports to show, from that of the configuration."},
	{key: "dashboard.proxy", about: "A proxy before the dashboard or `rpc-serve`."},
	{key: "dashboard.proxy.addresses", about: "Addresses and networks whose headers are trusted. The addresses of clients are taken from `X-Forwarded-For`, also by `rpc-serve`.", is: "list of texts", otherwise: required, readers: "`dashboard`, `rpc-serve`"},
	{key: "dashboard.proxy.user_header", about: "The header with the name of the user whom the proxy authenticated.", otherwise: "none: it authenticates nobody", readers: ofSite},
	{key: "dashboard.proxy.role_header", about: "The header with the proxy's roles of the user, separated by commas."},
	{key: "dashboard.proxy.roles", about: "The roles here of each role of the proxy. All its users may read."},

	{key: "scheduling_policy", about: "The [policies](../explanation/visits.md#the-policies) by visit type, each with a weight. An entry replaces the default of its visit type; `default` is for all others.", is: "mapping of visit types to lists of policies", otherwise: "the Python scheduler's", readers: ofPolicies},
	{key: "scheduling_policy.VISIT_TYPE.policy", about: "The policy; each at most once for a visit type. [visits.md](../explanation/visits.md) describes them.", is: "one of `" + strings.Join(visitPolicies, "`, `") + "`", otherwise: required},
	{key: "scheduling_policy.VISIT_TYPE.weight", about: "The policy's part of the visits. One weight or more must be above 0.", otherwise: required + " except with `pools`"},
	{key: "scheduling_policy.VISIT_TYPE.tablesample", about: "The sample of origins to pick from, in per cent. It has no effect while all origins cost no more, unless `exact` is `false`.", at: "scheduling_policy.VISIT_TYPE.filter.tablesample"},
	{key: "scheduling_policy.VISIT_TYPE.exact", about: "`false` always picks from the sample.", is: "true or false", otherwise: "`true`"},
	{key: "scheduling_policy.VISIT_TYPE.forks", about: "The part of the policy's visits for [forks](#forks), above 0 and below 1. Without it, forks are like other origins."},
	{key: "scheduling_policy.VISIT_TYPE.longest_wait", about: "The longest wait of an origin with the policy [`freshness`](#freshness)."},
	{key: "scheduling_policy.VISIT_TYPE.absolute_cooldown", about: "The least time since the origin was last scheduled. `null` and 0 are none; the Python scheduler accepts only these two.", at: "scheduling_policy.VISIT_TYPE.filter.cooldowns.absolute"},
	{key: "scheduling_policy.VISIT_TYPE.scheduled_cooldown", about: "The least time since the origin was last scheduled, if no visit has been recorded since.", at: "scheduling_policy.VISIT_TYPE.filter.cooldowns.scheduled"},
	{key: "scheduling_policy.VISIT_TYPE.failed_cooldown", about: "The least time since the last visit, if that failed.", at: "scheduling_policy.VISIT_TYPE.filter.cooldowns.failed"},
	{key: "scheduling_policy.VISIT_TYPE.not_found_cooldown", about: "The least time since the last visit, if that did not find the origin.", at: "scheduling_policy.VISIT_TYPE.filter.cooldowns.not_found"},
	{key: "scheduling_policy.VISIT_TYPE.enabled", about: "`false` picks disabled origins, such as those that their lister has stopped listing.", is: "true or false", otherwise: "`true`"},
	{key: "scheduling_policy.VISIT_TYPE.lister_uuid", about: "Picks origins of this lister only. `first_visits_after_listing` needs it, or the two below.", is: "text (UUID)", otherwise: "none"},
	{key: "scheduling_policy.VISIT_TYPE.lister_name", about: "Picks origins of listers with this name only.", at: "scheduling_policy.VISIT_TYPE.filter.lister_name"},
	{key: "scheduling_policy.VISIT_TYPE.lister_instance_name", about: "Picks origins of listers with this instance only.", at: "scheduling_policy.VISIT_TYPE.filter.lister_instance_name"},

	{key: "no_origins_scheduled_backoff", about: "How long a visit type without due origins pauses, in seconds. The pause ends when an origin becomes due.", is: "number of seconds", otherwise: fmt.Sprintf("`%v`", Default().NoOriginsScheduledBackoff.Seconds()), readers: "`schedule-recurrent`"},
	{key: "queue_full_backoff", about: "How long a visit type whose queue is full pauses, in seconds.", is: "number of seconds", otherwise: fmt.Sprintf("`%v`", Default().QueueFullBackoff.Seconds())},

	{key: "lost_after", about: "How long after its last event a run is given up, by task type. Without `default`, only the task types named are checked.", is: "mapping of task types to durations", readers: "`start-runner` without `--with-priority`, `explain`, `dashboard`, `config check`"},

	{key: "wanted_workers", about: "Settings of the [wanted workers](../how-to/autoscale.md), by task type. `default` is for all others.", is: "mapping of task types to mappings", readers: "daemons that send"},
	{key: "wanted_workers.TASK_TYPE.target_wait", about: "How long work should wait for a worker at most.", otherwise: "`" + shownDuration(model.DefaultTargetWait) + "`"},
	{key: "wanted_workers.TASK_TYPE.runtime", about: "The mean runtime, where workers report none."},
	{key: "wanted_workers.TASK_TYPE.max", about: "The most workers of a queue.", otherwise: "unlimited"},

	{key: "archive", about: "Deletes tasks that ended long ago, with their runs. See [archiving](#archiving).", readers: "`start-runner` without `--with-priority`, `task archive`, `config check`"},
	{key: "archive.after", about: "How long after its end a task is deleted, by task type: a day or more; 0 is never. Without `default`, only the task types named are checked.", is: "mapping of task types to durations"},
	{key: "archive.directory", about: "The directory to which tasks are written before they are deleted.", otherwise: "none; they are only deleted"},

	{key: "metrics", about: "The HTTP server of each daemon for `/metrics`, `/healthz` and `/readyz`. Other components' keys of the section are ignored.", readers: ofDaemons},
	{key: "metrics.addr", about: "The address to listen on, as `HOST:PORT`. `--metrics-addr` takes precedence."},
	{key: "metrics.hosts", about: "Host names in requests, besides addresses and the machine's names. `rpc-serve` uses them for its calls, too."},
	{key: "metrics.pprof", about: "`true` serves Go's profiles under `/debug/pprof/`, to this host only."},
	{key: "metrics.pprof_token", about: "A bearer token, or any user's password, with which other hosts read the profiles: 20 characters or more."},

	{key: "sentry", about: "Where errors are reported. `SWH_SENTRY_…` and `--sentry-dsn` take precedence. See [metrics.md](metrics.md#errors-to-sentry).", readers: everybody},
	{key: "sentry.dsn", about: "The address of the Sentry project."},
	{key: "sentry.environment", about: "The environment in reports.", otherwise: "Sentry's `production`"},
	{key: "sentry.main_package", about: "The name before the version in the release.", otherwise: "`swh-scheduler`"},
	{key: "sentry.disable_logging_events", about: "`true` reports only lines of the log that hold an error."},

	{key: "update_metrics_after", about: "The age of counts of `update-metrics` after which they are taken anew, one lister at a time. It is a minute or more; 0 is never.", otherwise: "`0`", readers: "daemons that send"},

	{key: "visit_rules", about: "How a visit changes an origin's [visit target](../explanation/visits.md#what-a-visit-changes). All journal clients must have the same; the defaults are the Python scheduler's.", readers: "`journal-client`, `explain`, `dashboard`, `simulator run`"},
	{key: "visit_rules.intervals", about: "The intervals that are added to the visit target, by the origin's place in this list."},
	{key: "visit_rules.fudge", about: "The largest random part by which an interval is longer or shorter; below 1."},
	{key: "visit_rules.disable_after", about: "The number of visits in a row that all fail, or all find nothing, after which an origin is disabled."},
	{key: "visit_rules.disable_after_mixed", about: "The same for visits that fail or find nothing in any mixture.", otherwise: "never"},

	{key: "failures_keep_date", about: "`true` keeps the date of the last visit when a visit fails. Then the origin waits for `scheduled_cooldown`.", readers: "`journal-client`, `simulator run`"},

	{key: "shares", about: "[Divides queues](../how-to/shares.md) between groups, by task type. `PREFIX:TASK_TYPE` is the queue of first visits.", is: "mapping of task types to mappings", readers: senders + ", `shares status`, `queue status`, `explain`, `dashboard`, `migrate`, `simulator run`, `config check`"},
	{key: "shares.TASK_TYPE.by", about: "What makes a group.", is: "`lister`, `lister_instance`, `task_type` or `kwargs.<key>`", otherwise: required},
	{key: "shares.TASK_TYPE.weights", about: "The weights of groups, above 0."},
	{key: "shares.TASK_TYPE.default", about: "The weight of each group that is not named.", otherwise: "the mean of `weights`"},
	{key: "shares.TASK_TYPE.half_life", about: "The time in which a group's past use counts half; a second or more."},
	{key: "shares.TASK_TYPE.max_in_flight", about: "The most messages of a group in flight.", otherwise: "unlimited"},
	{key: "shares.TASK_TYPE.priority", about: "The priority of a group's messages, from 0 to 255, in queues with `x-max-priority`.", otherwise: "`0`"},

	{key: "priority_ageing", about: "How long work waits until it counts as one [priority](#priorities-of-tasks) higher. From then on, messages of shares do not overtake it. 0 is never.", readers: senders + ", `explain`, `dashboard`, `simulator run`"},

	{key: "hosters", about: "[Limits the visits](../how-to/hosters.md) of hosters; others have any number.", readers: senders + ", `rpc-serve`, `origin grab-next`, `origin schedule-next`, `hosters status`, `explain`, `dashboard`, `migrate`, `simulator run`"},
	{key: "hosters.limits", about: "Limits by hoster: an instance of a lister (`name/instance`), or a host.", is: "mapping of hosters to mappings", otherwise: "none"},
	{key: "hosters.limits.NAME/INSTANCE.max_in_flight", about: "The most visits in flight. A hoster needs this, `per_minute` or both.", otherwise: "unlimited"},
	{key: "hosters.limits.NAME/INSTANCE.per_minute", about: "The most visits claimed in any minute.", otherwise: "unlimited"},
	{key: "hosters.limits.NAME/INSTANCE.min_in_flight", about: "The least limit of visits in flight to which refusals lower it.", otherwise: "`1`"},
	{key: "hosters.limits.NAME/INSTANCE.no_backoff", about: "Whether the hoster keeps its limit when it refuses visits.", otherwise: "`false`"},
	{key: "hosters.default", about: "The limits of each instance of a lister that is not named."},
	{key: "hosters.default.max_in_flight", about: "As in `hosters.limits`.", otherwise: "unlimited"},
	{key: "hosters.default.per_minute", about: "As in `hosters.limits`.", otherwise: "unlimited"},
	{key: "hosters.default.min_in_flight", about: "As in `hosters.limits`.", otherwise: "`1`"},
	{key: "hosters.default.no_backoff", about: "As in `hosters.limits`.", otherwise: "`false`"},
	{key: "hosters.backoff", about: "[Lowers the limits of hosters that refuse visits](../how-to/hosters.md#hosters-that-refuse-visits). An empty mapping has the defaults; without one, refusals change nothing.", is: "mapping", otherwise: "none"},
	{key: "hosters.backoff.min", about: "How long the limit stays low after a first refusal. Further ones double it.", is: "duration", otherwise: "`1 min`"},
	{key: "hosters.backoff.max", about: "The longest time, also if the hoster asks for a longer one.", is: "duration", otherwise: "`1 day`"},
	{key: "hosters.lost_after", about: "How long a visit counts as in flight after a worker began it, if no event reports its end."},

	{key: "hints", about: "[Hints](../how-to/hints.md) that origins have changed: sources of webhooks by name, and `unknown`. A source's name is the end of its path, `/hints/SOURCE`.", is: "mapping of sources to mappings", readers: "`rpc-serve`, `origin hint`, `config check`"},
	{key: "hints.SOURCE.forge", about: "How its webhooks are signed, and what they contain.", is: "one of `" + strings.Join(hints.Forges(), "`, `") + "`", otherwise: "the source's name, if it is one of them", at: "hints.sources.SOURCE.forge"},
	{key: "hints.SOURCE.secret", about: "The secret of its webhooks, of 20 characters or more; two, while one replaces the other.", otherwise: required, at: "hints.sources.SOURCE.secret"},
	{key: "hints.SOURCE.hosts", about: "The hosts of the origins that it may name: `HOST`, `*.DOMAIN` or `*`.", otherwise: "that of `github`, `gitlab` or `bitbucket`, else " + required, at: "hints.sources.SOURCE.hosts"},
	{key: "hints.SOURCE.max_per_second", about: "The most hints in a second, over some seconds.", otherwise: fmt.Sprintf("`%d`", hints.DefaultMaxPerSecond), at: "hints.sources.SOURCE.max_per_second"},
	{key: "hints.unknown", about: "Makes origins of hints of which no lister lists the origin. Without it, they are only counted."},
	{key: "hints.unknown.lister", about: "The name of the lister that has these origins, and no others.", otherwise: required},
	{key: "hints.unknown.instance", about: "The instance of that lister."},
	{key: "hints.unknown.visit_type", about: "The visit type of an origin whose hint names none.", otherwise: "`git`"},
	{key: "hints.unknown.max_origins", about: "The most origins of that lister.", otherwise: "`100000`"},
	{key: "gone_origins", about: "[Disables origins](../how-to/gone.md) that a full listing lacks, by lister (`gitweb`) or by instance (`gitlab/gitlab.example`). The key of an instance takes precedence.", is: "mapping of listers to mappings", readers: "`journal-client`, `rpc-serve`, `lister gone`, `config check`"},
	{key: "gone_origins.LISTER.full_task_types", about: "The task types of which one run lists all origins of an instance.", otherwise: "`list-LISTER` or `list-LISTER-full` of [some listers](../how-to/gone.md#which-listings-are-full); required for others"},
	{key: "gone_origins.LISTER.listings", about: "The number of full listings in a row that must lack an origin, up to 10.", otherwise: "`1`"},
	{key: "gone_origins.LISTER.max_share", about: "The part of an instance's enabled origins that may go at once, from 0 to 1. A listing that lacks more is held back until an operator decides.", otherwise: "`0.05`"},
	{key: "gone_origins.LISTER.few", about: "The number of origins that may always go at once, unless they are more than half.", otherwise: "`5`"},
	{key: "gone_origins.LISTER.clock_margin", about: "The largest difference between the clocks of the database, the daemons and the workers; a day at most.", otherwise: "`10 minutes`"},
	{key: "gone_origins.LISTER.arguments", about: "Further keyword arguments of tasks that leave a listing full.", otherwise: "none"},

	{key: "lanes", about: "[Queues with growing time limits](../how-to/lanes.md), by task type: two or more. `save_code_now:TASK_TYPE` are tasks with priority, `PREFIX:TASK_TYPE` first visits.", is: "mapping of task types to lists of mappings", readers: senders + ", `lanes status`, `queue status`, `explain`, `forecast`, `dashboard`, `simulator run`, `config check`"},
	{key: "lanes.TASK_TYPE.name", about: "The lane's name.", otherwise: required},
	{key: "lanes.TASK_TYPE.queue", about: "The lane's queue. `{backend_name}` is the task type's backend name.", otherwise: "`" + model.BackendNameInQueue + "`"},
	{key: "lanes.TASK_TYPE.time_limit", about: "The soft and the hard limit. For one duration, the hard limit is a tenth longer, by at least a second.", is: "duration, or mapping", otherwise: required},
	{key: "lanes.TASK_TYPE.time_limit.soft", about: "The runtime after which Celery raises `SoftTimeLimitExceeded` in the task.", otherwise: required, at: "lanes.TASK_TYPE.soft_time_limit"},
	{key: "lanes.TASK_TYPE.time_limit.hard", about: "The runtime after which Celery kills the worker process.", otherwise: required, at: "lanes.TASK_TYPE.time_limit"},
	{key: "lanes.TASK_TYPE.slots", about: "The most messages in the queue.", otherwise: "the task type's `max_queue_length`"},
	{key: "lanes.TASK_TYPE.min_slots", about: "The fewest slots that are left when other lanes borrow them."},
	{key: "lanes.TASK_TYPE.max_slots", about: "The most slots with those borrowed from other lanes.", otherwise: "`slots`"},
	{key: "lanes.TASK_TYPE.target_wait", about: "The longest intended wait of the backlog. Beyond it, the lane gets slots from other lanes with a `target_wait`."},
	{key: "lanes.TASK_TYPE.retry", about: "`true` retries tasks that time out in the last lane, as after other failures."},
}
