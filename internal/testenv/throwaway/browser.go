package throwaway

import (
	"os"
	"os/exec"
	"path/filepath"
)

// axe is the file of axe-core's version; the installer fetches the same.
const axe = "axe-core-4.14.1.js"

// FindBrowser returns the path of Chromium, for tests of pages, and the script of axe-core,
// which finds faults of accessibility.
func FindBrowser() (chromium, axeScript string, err error) {
	if chromium, err = exec.LookPath("chromium-headless-shell"); err != nil {
		if chromium, err = exec.LookPath("chromium"); err != nil {
			return "", "", missing("Chromium")
		}
	}
	cache, err := CacheDir()
	if err != nil {
		return "", "", err
	}
	script, err := os.ReadFile(filepath.Join(cache, axe))
	if err != nil {
		return "", "", missing("axe-core (" + filepath.Join(cache, axe) + ")")
	}
	return chromium, string(script), nil
}
