// SPDX-License-Identifier: Apache-2.0

// Packages prints the software bill of materials of a program that script/release has
// built: go -C script/packages run . PROGRAM VERSION. It names the Go modules that are
// linked, as the program itself lists them, and for boxdyno what the page contains.
// Its form is CycloneDX 1.6 in JSON, without serial number and time, so that it is the
// same for the same program.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The page, and what was installed to build it.
const (
	page = "../../report/page/ui/dist/page.html"
	lock = "../../report/page/ui/package-lock.json"
)

func main() {
	err := fmt.Errorf("want a program and its version, and not %d arguments", len(os.Args)-1)
	if len(os.Args) == 3 {
		err = write(os.Stdout, os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "script/packages:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read what is linked: %w", err)
	}
	name := path.Base(info.Path)
	main := cdx.Component{BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: version}
	parts := []cdx.Component{part("golang/", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, part("golang/", m.Path, m.Version))
	}
	if name == "boxdyno" {
		inPage, err := bundled()
		if err != nil {
			return err
		}
		parts = append(parts, inPage...)
	}
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: name, Dependencies: &refs}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

func part(kind, name, version string) cdx.Component {
	purl := "pkg:" + kind + strings.ReplaceAll(name, "@", "%40") + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, Scope: cdx.ScopeRequired, PackageURL: purl}
}

// bundled returns the npm packages that the page says it contains, with the versions
// and checksums that it was built from.
func bundled() ([]cdx.Component, error) {
	html, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var locked struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := json.Unmarshal(text, &locked); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	var parts []cdx.Component
	for _, m := range regexp.MustCompile(`(?m)^This page contains (\S+), under this licence:$`).FindAllSubmatch(html, -1) {
		p := locked.Packages["node_modules/"+string(m[1])]
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Integrity, "sha512-"))
		if err != nil || p.Version == "" {
			return nil, fmt.Errorf("%s has no version and checksum of %s, which the page contains", lock, m[1])
		}
		c := part("npm/", string(m[1]), p.Version)
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(sum)}}
		parts = append(parts, c)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s names nothing that it contains", page)
	}
	slices.SortFunc(parts, func(a, b cdx.Component) int { return strings.Compare(a.Name, b.Name) })
	return parts, nil
}
