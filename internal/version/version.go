// SPDX-License-Identifier: Apache-2.0

// Package version is the version of this program.
package version

import (
	"runtime/debug"
	"strings"
)

// version is set when a release is built (-ldflags "-X boxdyno/internal/version.version=...").
var version = ""

// Version returns it: that of the release, else of the module and its commit.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(v, s.Value[:min(12, len(s.Value))]) {
			v += "-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}
