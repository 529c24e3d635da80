package config

import (
	"maps"
	"slices"
	"strings"
)

// Keys that the peer and its siblings read and that mean nothing here. Only
// keys that no field has are looked up in them.
const (
	// topKeys are the sections of Software Heritage's components.
	topKeys = `
authentication bulk cassandra checkers client client_max_size counters cooker core credentials
debug default_config deposit directory_paging_size enable_origins_list_sorting endpoints extraction_dir
fetch_timeout global graph graphql graph_service hidden host idx_storage index indexer
indexer_storage indexers instance journal_client journal_writer keycloak lister listers loader
loaders log log_config log_level logging mailmap masking masking_query metadata_fetcher
metadata_fetcher_credentials metadata_origin max_content_size max_directory_size
object_types objstorage objstorage_src objstorage_dst origin_metadata packfile_chunk_size_bytes
packages_limit port provenance proxy pypi query redis replayer replayer_config rpc save_data
save_data_path scrubber search secret_key sentry sentry_debug sentry_dsn sentry_environment
server smtp statsd storage storage_dbname storage_write temp_directory timeout tools
vault verify web webapp write_batch_size`

	// schedulerKeys are keyword arguments of the peer's backend and RPC client.
	schedulerKeys = `
args min_pool_conns timeout chunk_size max_retries pool_connections pool_maxsize adapter_kwargs
api_exception reraise_exceptions enable_requests_retry session_kwargs`

	// workerKeys are what the peer itself adds to Celery's settings.
	workerKeys = `
task_modules sentry_settings_for_celery_tasks`

	// journalKeys are keyword arguments of the peer's journal client.
	journalKeys = `
cls object_types create_topics error_reporter process_timeout value_deserializer stats_cb`
)

// unknown warns of a key that neither we (known) nor another component (others)
// reads, and names the one it resembles.
func (e entry) unknown(known []string, others []string) {
	if slices.Contains(others, e.name) {
		return
	}
	e.warn("is not a known key; it is ignored" + didYouMean(e.name, append(slices.Clone(known), others...)))
}

func keysOf[V any](fields map[string]V) []string { return slices.Sorted(maps.Keys(fields)) }

// didYouMean is " (did you mean …?)" for the known name nearest to name, or
// nothing if none is near.
func didYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// Nearest is the one of known that name was probably meant to be: at most a
// third of its letters are added, left out, replaced or swapped. It is "" if
// there is none.
func Nearest(name string, known []string) string {
	best, distance := "", max(1, len(name)/3)+1
	for _, candidate := range known {
		if d := editDistance(strings.ToLower(name), candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if distance >= len(name) {
		return "" // nothing of it is left
	}
	return best
}

// editDistance is how many bytes must be added, left out, replaced or swapped
// with their neighbour to make b of a (optimal string alignment).
func editDistance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			replace := row[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			next[j] = min(row[j]+1, next[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
