// Sbom writes the modules of a Go program and the Go that built it, as CycloneDX JSON: sbom PROGRAM >FILE. It reads
// the linker's data in the program, so that it lists the linked modules, not all of go.mod.
//
// The same program gives the same bytes: the output has no time, and the serial number is derived from the program's
// checksum.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM >FILE")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	encoder := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	return encoder.Encode(describe(filepath.Base(program), release(info), sha256.Sum256(content), info))
}

// release returns the version in the program's build settings.
func release(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if _, version, found := strings.Cut(s.Value, "main.release="); s.Key == "-ldflags" && found {
			version, _, _ = strings.Cut(version, " ")
			return version
		}
	}
	return info.Main.Version
}

func describe(name, version string, sum [sha256.Size]byte, info *debug.BuildInfo) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid.NewHash(sha256.New(), uuid.NameSpaceURL, sum[:], 8).String()
	program := cdx.Component{
		BOMRef: info.Main.Path, Type: cdx.ComponentTypeApplication, Name: name, Version: version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "GPL-3.0-or-later"}}},
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
	var properties []cdx.Property
	for _, s := range info.Settings {
		properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	program.Properties = &properties
	bom.Metadata = &cdx.Metadata{Component: &program}

	std := library("std", strings.TrimPrefix(info.GoVersion, "go"), "")
	components, refs := []cdx.Component{std}, []string{std.BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := library(m.Path, m.Version, m.Sum)
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return bom
}

// library is a module; sum is as in go.sum, of SHA-256 over all its files.
func library(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) == sha256.Size {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	}
	return c
}
