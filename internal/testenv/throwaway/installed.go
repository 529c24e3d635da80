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

// CacheDir returns the directory where deploy/local/install.sh puts what is not a package of the
// system. The script has the same rule.
func CacheDir() (string, error) {
	if dir := os.Getenv("SWH_SCHEDULER_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "swh-scheduler"), err
}

// These environment variables ask for other versions than the usual ones. The installer
// reads them, too, and keeps the versions side by side.
const (
	PostgresVersionVar = "SWH_TEST_POSTGRES_VERSION" // 13.23.0
	KafkaVersionVar    = "SWH_TEST_KAFKA_VERSION"    // 4.4.0
	CeleryVersionVar   = "SWH_TEST_CELERY_VERSION"   // 5.3
)

// versioned returns the name of the directory with the version that a variable asks for.
func versioned(name, variable string) string {
	if version := os.Getenv(variable); version != "" {
		return name + "-" + version
	}
	return name
}

// missing returns the error for something that the installer installs.
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

// postgresPrograms returns the directory of PostgreSQL's programs: the system's, or those of
// the version that the environment asks for. Of these it makes a copy in dir, as PostgreSQL
// runs as a user who may not read the cache of root.
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

// findProgram looks for a server program in PATH and in the directories where
// Debian keeps those that are not meant to be typed; of several versions it
// takes the newest.
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
