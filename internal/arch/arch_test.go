// SPDX-License-Identifier: Apache-2.0

// Package arch holds the house's rules as tests: who may import whom, who owns a
// heavy module, that public names are documented and files licensed.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// table says which packages of ours each package may import. A new package gets
// a line here, and docs/architecture.md a place for it.
var table = map[string]string{
	"unit":                         "",
	"result":                       "unit internal/files",
	"host":                         "unit result internal/ethtool internal/netns internal/caps internal/guard",
	"link":                         "host internal/guard unit",
	"link/hub":                     "host internal/guard link",
	"fleet":                        "host internal/files internal/guard link unit",
	"fleet/hub":                    "fleet host internal/files internal/guard link unit",
	"frame":                        "unit internal/yaml internal/files",
	"search":                       "unit",
	"stat":                         "",
	"subject":                      "host result subject/internal/program unit",
	"subject/capture":              "engine engine/catalog host internal/files internal/guard internal/yaml result subject subject/internal/made subject/internal/program unit",
	"subject/ids":                  "host internal/files internal/guard subject subject/capture unit",
	"subject/detector":             "host internal/infer result subject subject/capture subject/internal/made subject/internal/program",
	"subject/iperf":                "host internal/guard result unit",
	"subject/web":                  "host result",
	"subject/tunnel":               "host internal/guard result subject subject/internal/program tune unit",
	"subject/cipher":               "host result subject subject/internal/program",
	"subject/compute":              "host result subject subject/internal/made subject/internal/program subject/mpi subject/stress unit",
	"subject/mpi":                  "host internal/guard subject/internal/made unit",
	"subject/disk":                 "host result subject/internal/program",
	"subject/stress":               "host result subject subject/internal/program unit",
	"subject/userland":             "host subject/internal/made",
	"subject/catalog":              "subject subject/capture subject/cipher subject/compute subject/detector subject/disk subject/ids subject/stress subject/tunnel",
	"subject/internal/made":        "host result subject subject/internal/program",
	"subject/internal/program":     "host",
	"subject/internal/subjecttest": "engine engine/catalog frame host internal/testutil unit",
	"engine":                       "frame host result unit",
	"engine/catalog":               "engine engine/afxdp engine/packet engine/xdp host",
	"engine/xdp":                   "engine engine/internal/bpf engine/internal/bucket engine/internal/clock engine/internal/pace engine/internal/ports engine/internal/tally engine/packet engine/roll frame host internal/netns result unit",
	"engine/packet":                "engine engine/internal/clock engine/internal/feed engine/internal/pace engine/internal/ports engine/internal/tally engine/roll frame host internal/caps internal/guard internal/netns unit",
	"engine/afxdp":                 "engine engine/internal/bpf engine/internal/clock engine/internal/ports engine/internal/tally engine/packet engine/roll frame host internal/ethtool internal/netns internal/xsk result unit",
	"engine/roll":                  "engine engine/internal/bpf engine/internal/clock engine/internal/tally frame host internal/netns",
	"engine/mem":                   "engine engine/crew engine/internal/feed engine/internal/pace engine/internal/tally frame host result unit",
	"engine/crew":                  "engine engine/internal/pace frame host internal/guard result unit",
	"engine/conn":                  "engine engine/internal/bpf engine/internal/bucket engine/xdp host internal/netns result unit",
	"engine/internal/pace":         "engine engine/internal/bucket engine/internal/feed frame unit",
	"engine/internal/feed":         "engine frame internal/guard unit",
	"engine/internal/tally":        "engine engine/internal/bucket frame unit",
	"engine/internal/bucket":       "result",
	"engine/internal/clock":        "unit",
	"engine/internal/ports":        "engine host internal/ethtool internal/netns",
	"engine/internal/bpf":          "engine host",
	"engine/internal/enginetest":   "engine engine/internal/bpf engine/internal/ports frame host internal/guard internal/netns internal/testutil unit",
	"ledger":                       "host result internal/ethtool internal/netns",
	"tune":                         "host result internal/ethtool internal/netns internal/yaml internal/files internal/caps",
	"telemetry":                    "unit host result ledger internal/ethtool internal/netns internal/caps internal/guard",
	"agent":                        "engine engine/roll frame host internal/cables internal/files internal/guard internal/netns ledger link result service subject subject/capture subject/detector subject/ids subject/iperf subject/mpi subject/tunnel subject/web telemetry tune unit",
	"cmd/boxdyno-agent":            "agent fleet host internal/version link procedure/far subject/catalog",
	"internal/version":             "",
	"lab":                          "agent engine engine/catalog engine/mem engine/packet engine/roll frame host internal/cables internal/caps internal/ethtool internal/files internal/guard internal/netns internal/version internal/yaml ledger link result service subject subject/iperf subject/tunnel telemetry tune unit",
	"procedure":                    "host lab result subject subject/stress unit",
	"procedure/catalog":            "procedure procedure/capture procedure/connections procedure/far procedure/flood procedure/infer procedure/replay procedure/rfc2544 procedure/security procedure/tunnel",
	"procedure/far":                "agent host internal/guard lab link procedure procedure/capture procedure/compute procedure/rfc2544 procedure/soak procedure/storage result unit",
	"procedure/many":               "agent internal/guard lab link procedure procedure/far procedure/internal/metrics procedure/internal/param procedure/tunnel result subject subject/mpi subject/tunnel unit verdict",
	"procedure/rfc2544":            "engine frame lab procedure procedure/internal/metrics procedure/internal/param procedure/internal/trial result unit",
	"procedure/connections":        "engine engine/conn host internal/limit lab ledger procedure procedure/internal/metrics procedure/internal/param procedure/internal/trial result search unit",
	"procedure/security":           "engine frame internal/guard lab procedure procedure/internal/metrics procedure/internal/param procedure/internal/trial result unit",
	"procedure/capture":            "engine engine/crew frame host internal/files internal/guard internal/limit lab ledger procedure procedure/internal/metrics procedure/internal/param procedure/internal/trial result search stat subject subject/capture subject/catalog subject/ids subject/iperf unit",
	"procedure/flood":              "engine engine/crew frame host internal/guard internal/limit internal/netns lab ledger procedure procedure/capture procedure/internal/metrics procedure/internal/param procedure/internal/trial result search subject/web unit",
	"procedure/replay":             "engine engine/crew frame internal/limit lab procedure procedure/internal/metrics procedure/internal/param procedure/internal/trial result search unit",
	"procedure/infer":              "host lab procedure procedure/capture procedure/internal/metrics procedure/internal/param result subject subject/capture subject/detector subject/stress unit",
	"procedure/compute":            "host lab procedure procedure/internal/metrics procedure/internal/param result subject subject/cipher subject/compute subject/mpi subject/stress unit",
	"procedure/soak":               "host lab procedure procedure/internal/metrics procedure/internal/param result subject subject/stress unit",
	"procedure/tunnel":             "engine frame host internal/limit lab procedure procedure/internal/metrics procedure/internal/param procedure/internal/trial result search subject subject/iperf subject/tunnel subject/userland unit",
	"procedure/storage":            "host lab procedure procedure/internal/metrics procedure/internal/param result subject/disk unit",
	"procedure/internal/roomtest":  "engine engine/crew host internal/testutil lab link/hub procedure result unit verdict",
	"procedure/internal/trial":     "engine engine/crew frame host internal/limit lab ledger procedure procedure/internal/metrics procedure/internal/param result search stat unit",
	"procedure/internal/metrics":   "result search",
	"procedure/internal/param":     "frame host result subject/userland unit",
	"service":                      "frame host internal/netns result tune",
	"verdict":                      "unit result",
	"runner":                       "engine/catalog host internal/files internal/schema internal/yaml lab link link/hub procedure procedure/catalog procedure/far reference/boards result search stat subject subject/capture subject/catalog subject/userland telemetry tune unit verdict",
	"report":                       "unit result stat verdict reference reference/sizing report/internal/grid report/internal/phrase report/internal/sensed",
	"report/text":                  "internal/printable report report/compare report/internal/grid report/internal/phrase result unit verdict",
	"report/page":                  "internal/schema report report/text result",
	"report/compare":               "report report/internal/grid report/internal/phrase result stat",
	"report/timeline":              "report report/internal/phrase report/internal/sensed result unit",
	"report/internal/grid":         "internal/printable",
	"report/internal/phrase":       "unit result",
	"report/internal/sensed":       "result",
	"store":                        "internal/files internal/guard result stat",
	"reference":                    "",
	"reference/boards":             "",
	"reference/sizing":             "reference reference/boards result unit",
	"report/tui":                   "unit result internal/guard",
	"serve":                        "internal/files internal/guard report report/page report/timeline result",
	"examples":                     "",
	"internal/fleetsim":            "agent internal/guard lab link procedure procedure/far result unit",
	"internal/guard":               "",
	"internal/infer":               "",
	"internal/cables":              "host internal/guard internal/netns tune",
	"internal/caps":                "",
	"internal/ethtool":             "",
	"internal/files":               "",
	"internal/limit":               "search unit",
	"internal/netns":               "internal/guard",
	"internal/printable":           "",
	"internal/schema":              "",
	"internal/xsk":                 "",
	"internal/yaml":                "",
	"internal/testutil":            "internal/netns",
	"internal/snapshot":            "internal/ethtool internal/netns",
	"internal/cli":                 "agent engine engine/catalog examples fleet/hub frame host internal/cables internal/files internal/guard internal/printable internal/schema internal/version internal/yaml lab ledger link link/hub procedure procedure/far procedure/many reference/boards reference/sizing report report/compare report/page report/text report/timeline report/tui result runner serve store subject subject/capture subject/catalog telemetry tune unit",
	"cmd/boxdyno":                  "internal/cli subject/catalog",
	"script/testcount":             "",
	"script/man":                   "internal/cli",
	"script/notices":               "",
}

// owner says which packages alone may import a heavy module.
var owner = map[string]string{
	"modernc.org/sqlite":                "store",
	"database/sql":                      "store",
	"github.com/jackc/pgx/v5":           "store",
	"github.com/parquet-go/parquet-go":  "store",
	"github.com/nats-io/nats-server/v2": "link/hub fleet/hub",
	"github.com/nats-io/nats.go":        "link fleet fleet/hub",
	"github.com/nats-io/jwt/v2":         "fleet/hub",
	"charm.land/bubbletea/v2":           "report/tui",
	"github.com/goccy/go-yaml":          "internal/yaml",
	"github.com/spf13/cobra":            "internal/cli",
	"github.com/spf13/cobra/doc":        "script/man",
	"github.com/vishvananda/netns":      "internal/netns",
}

// A source is one Go file that is not a test.
type source struct {
	name, pkg, text string
	file            *ast.File
	fset            *token.FileSet
}

// sources reads the tree itself, not "go list": go test would not see what that
// read, and would print a stale, cached ok.
func sources(t *testing.T, tests bool) (out []source) {
	t.Helper()
	root := "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if err == nil && d.IsDir() && !tests && (path == filepath.Join(root, "script/proof") || path == filepath.Join(root, "script/packages")) {
			return filepath.SkipDir // modules of their own
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") && !tests {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s := source{name: rel, pkg: filepath.ToSlash(filepath.Dir(rel)), text: string(text), fset: token.NewFileSet()}
		if s.file, err = parser.ParseFile(s.fset, path, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 30 {
		t.Fatalf("%d sources: is this the root of the tree?", len(out))
	}
	return out
}

func (s source) imports() (paths []string) {
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value) // the parser has seen that it is a string
		paths = append(paths, p)
	}
	return paths
}

func TestTable(t *testing.T) {
	seen := map[string][]string{}
	for _, s := range sources(t, false) {
		want, ok := table[s.pkg]
		if !ok {
			t.Errorf("%s is of package %s, which is not in the table", s.name, s.pkg)
			continue
		}
		seen[s.pkg] = append(seen[s.pkg], s.imports()...)
		for _, i := range s.imports() {
			if p, ours := strings.CutPrefix(i, "boxdyno/"); ours && !slices.Contains(strings.Fields(want), p) {
				t.Errorf("%s imports %s, which %s may not", s.name, p, s.pkg)
			}
			for mod, own := range owner {
				if (i == mod || strings.HasPrefix(i, mod+"/")) && !slices.Contains(strings.Fields(own), s.pkg) && owner[i] != s.pkg {
					t.Errorf("%s imports %s, which only %s may", s.name, i, own)
				}
			}
		}
	}
	for pkg, want := range table {
		imports, ok := seen[pkg]
		if !ok {
			t.Errorf("%s is in the table and not in the tree", pkg)
		}
		for _, a := range strings.Fields(want) {
			if ok && !slices.Contains(imports, "boxdyno/"+a) {
				t.Errorf("%s may import %s and does not: strike it", pkg, a)
			}
		}
	}
}

// The agent is small: what only a tester needs is not in it.
func TestAgentReachesNoReport(t *testing.T) {
	imports := map[string][]string{}
	for _, s := range sources(t, false) {
		imports[s.pkg] = append(imports[s.pkg], s.imports()...)
	}
	seen := map[string]bool{}
	var walk func(pkg, via string)
	walk = func(pkg, via string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, i := range imports[pkg] {
			for _, no := range []string{"boxdyno/link/hub", "boxdyno/fleet/hub", "boxdyno/procedure/many", "boxdyno/serve", "github.com/nats-io/jwt/v2", "boxdyno/report", "boxdyno/store", "boxdyno/reference", "boxdyno/runner", "boxdyno/procedure/catalog",
				"github.com/nats-io/nats-server/v2", "github.com/spf13/cobra", "charm.land/bubbletea/v2", "github.com/parquet-go/parquet-go", "modernc.org/sqlite", "github.com/jackc/pgx/v5", "database/sql"} {
				if i == no || strings.HasPrefix(i, no+"/") {
					t.Errorf("the agent reaches %s by %s", i, via+" > "+pkg)
				}
			}
			if p, ours := strings.CutPrefix(i, "boxdyno/"); ours {
				walk(p, via+" > "+pkg)
			}
		}
	}
	walk("cmd/boxdyno-agent", "")
	if !seen["agent"] {
		t.Error("the agent's own package was not seen")
	}
}

// Reports are made anywhere, without root: nothing that they reach touches a
// machine.
func TestReportReachesNoMachine(t *testing.T) {
	imports := map[string][]string{}
	for _, s := range sources(t, false) {
		imports[s.pkg] = append(imports[s.pkg], s.imports()...)
	}
	seen := map[string]bool{}
	var walk func(pkg, via string)
	walk = func(pkg, via string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, no := range []string{"host", "engine", "lab", "procedure", "runner", "internal/netns"} {
			if pkg == no {
				t.Errorf("report reaches %s by %s", no, via)
			}
		}
		for _, i := range imports[pkg] {
			if p, ours := strings.CutPrefix(i, "boxdyno/"); ours {
				walk(p, via+" > "+p)
			}
		}
	}
	walk("report", "report")
}

// Nothing but serve answers browsers.
func TestServers(t *testing.T) {
	servers := []string{"Server", "ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"}
	seen := false
	for _, s := range sources(t, false) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "http" && slices.Contains(servers, sel.Sel.Name) {
				if seen = true; s.pkg != "serve" {
					t.Errorf("%s: only serve has a server of HTTP", s.fset.Position(sel.Pos()))
				}
			}
			return true
		})
	}
	if !seen {
		t.Error("no server was seen, not even that of serve")
	}
}

func TestThreads(t *testing.T) {
	for _, s := range sources(t, false) {
		if strings.Contains(s.text, "runtime.LockOSThread") && s.pkg != "internal/netns" && s.pkg != "internal/caps" {
			t.Errorf("%s locks an OS thread, which only internal/netns and internal/caps may", s.name)
		}
	}
}

// A panic in a bare goroutine ends the program before it has put anything back.
func TestGoroutines(t *testing.T) {
	for _, s := range sources(t, false) {
		top, _, _ := strings.Cut(strings.TrimPrefix(s.pkg, "internal/"), "/")
		if slices.Contains([]string{"guard", "testutil", "script"}, top) {
			continue // or no part of the program
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: use guard.Go", s.fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && x.Name == "sync" && n.Sel.Name == "WaitGroup" {
					t.Errorf("%s: use guard.Group", s.fset.Position(n.Pos()))
				}
				if ok && n.Sel.Name == "AfterFunc" {
					t.Errorf("%s: use guard.After or AfterDone", s.fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

const spdx = "SPDX-License-Identifier: "

func TestLicence(t *testing.T) {
	for _, s := range sources(t, true) {
		if strings.HasPrefix(s.text, "// "+spdx+"Apache-2.0\n\n") || ast.IsGenerated(s.file) {
			continue
		}
		t.Errorf("%s does not begin with its SPDX line and an empty one", s.name)
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != "../..") {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".c") && !strings.HasSuffix(path, ".h") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(strings.SplitN(string(text), "\n", 2)[0], spdx) {
			t.Errorf("%s does not begin with its SPDX line", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Public types and functions of packages that others build on say what they mean.
func TestPublicNamesAreDocumented(t *testing.T) {
	packages := map[string]bool{}
	for _, s := range sources(t, false) {
		if s.file.Doc != nil {
			packages[s.pkg] = true
		} else if !packages[s.pkg] {
			packages[s.pkg] = false
		}
		if strings.HasPrefix(s.pkg, "internal/") || strings.HasPrefix(s.pkg, "cmd/") || ast.IsGenerated(s.file) {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d)) && !interfaceMethod[d.Name.Name] {
					t.Errorf("%s: %s has no doc comment", s.fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, sp := range d.Specs {
					if sp, ok := sp.(*ast.TypeSpec); ok && sp.Name.IsExported() && d.Doc == nil && sp.Doc == nil && sp.Comment == nil {
						t.Errorf("%s: %s has no doc comment", s.fset.Position(sp.Pos()), sp.Name.Name)
					}
				}
			}
		}
	}
	for pkg, ok := range packages {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

// interfaceMethod are methods whose meaning their interface has said.
var interfaceMethod = map[string]bool{
	"Error": true, "Unwrap": true, "String": true, "Set": true, "Close": true, "Flags": true, "Check": true, "Estimate": true, "Run": true,
	"Build": true, "Name": true, "Probe": true, "OpenTransmitter": true, "OpenMeter": true, "Transmit": true, "Arm": true, "Read": true, "Count": true,
	"MarshalJSON": true, "UnmarshalJSON": true,
}

func exportedReceiver(d *ast.FuncDecl) bool {
	x := d.Recv.List[0].Type
	if s, ok := x.(*ast.StarExpr); ok {
		x = s.X
	}
	id, ok := x.(*ast.Ident)
	return ok && id.IsExported()
}
