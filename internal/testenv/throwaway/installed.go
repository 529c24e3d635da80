package throwaway

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// CacheDir returns the directory into which deploy/local/install.sh installs all but system packages. The script has
// the same rule.
func CacheDir() (string, error) {
	if dir := os.Getenv("SWH_SCHEDULER_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "swh-scheduler"), err
}

// These environment variables choose other versions than the default ones. The installer reads them, too, and keeps
// the versions side by side.
const (
	PostgresVersionVar = "SWH_TEST_POSTGRES_VERSION" // 13.23.0
	KafkaVersionVar    = "SWH_TEST_KAFKA_VERSION"    // 4.4.0
	CeleryVersionVar   = "SWH_TEST_CELERY_VERSION"   // 5.3
)

// versioned returns the name of the directory with the version of a variable.
func versioned(name, variable string) string {
	if version := os.Getenv(variable); version != "" {
		return name + "-" + version
	}
	return name
}

// missing returns the error for a missing part that the installer installs.
func missing(what string) error {
	return fmt.Errorf("%s is not installed: run `make install`", what)
}

func findPython() (string, error) {
	return pythonIn(versioned("python", CeleryVersionVar), "Celery and swh.scheduler")
}

// FindArchive returns the Python interpreter of the environment with the archive's own parts
// (deploy/local/python/archive.txt).
func FindArchive() (string, error) { return pythonIn("archive", "the archive's own parts") }

// pythonIn returns the interpreter of the environment in a directory of the cache.
func pythonIn(dir, with string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	python := filepath.Join(cache, dir, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		return "", missing("the Python environment with " + with + " (" + python + ")")
	}
	return python, nil
}

// findKafka returns the class path of Kafka and the Java to run it with.
func findKafka() (java, classPath string, err error) {
	java, err = exec.LookPath("java")
	if err != nil {
		return "", "", missing("Java")
	}
	cache, err := CacheDir()
	if err != nil {
		return "", "", err
	}
	libs := filepath.Join(cache, versioned("kafka", KafkaVersionVar))
	if found, _ := filepath.Glob(filepath.Join(libs, "kafka_*.jar")); len(found) == 0 {
		return "", "", missing("Kafka (" + libs + ")")
	}
	return java, filepath.Join(libs, "*"), nil
}

// postgresPrograms returns the directory of PostgreSQL's programs: the system's, or those of the environment's
// version. It copies the latter to dir, as PostgreSQL runs as a user without access to root's cache.
func postgresPrograms(dir string) (string, error) {
	if os.Getenv(PostgresVersionVar) == "" {
		initdb, err := findProgram("initdb", "/usr/lib/postgresql/*/bin")
		return filepath.Dir(initdb), err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	name := versioned("postgresql", PostgresVersionVar)
	installed, copied := filepath.Join(cache, name), filepath.Join(dir, name)
	bin := filepath.Join(copied, "bin")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if _, err := os.Stat(installed); err != nil {
		return "", missing("PostgreSQL (" + installed + ")")
	}
	return bin, os.CopyFS(copied, os.DirFS(installed))
}

// findProgram looks for a server program in PATH and in the directories of Debian's packages. It returns the newest
// of several versions.
func findProgram(name string, patterns ...string) (string, error) {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(pattern, name))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return slices.MaxFunc(found, func(a, b string) int {
				return cmp.Compare(versionOf(a), versionOf(b))
			}), nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", missing(name)
	}
	return path, nil
}

// versionOf returns the version in a path such as …/15/bin/postgres; 0 if there is none.
func versionOf(path string) float64 {
	version, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(filepath.Dir(path))), 64)
	return version
}
