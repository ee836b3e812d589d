// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/result"
)

// A Run is what the index has of one run. Plain data, printed by --json.
type Run struct {
	ID         string        `json:"id"`
	Dir        string        `json:"dir"`  // of its bundle, on Host
	Host       string        `json:"host"` // whose disk it is on
	Start      time.Time     `json:"start"`
	Version    string        `json:"version"` // of boxdyno
	Role       string        `json:"role,omitempty"`
	Procedures []string      `json:"procedures"`
	Preset     string        `json:"preset"`
	Topology   string        `json:"topology"`
	Box        string        `json:"box"`  // what its user calls it; of a run without, the machine's name
	Kind       string        `json:"kind"` // real, sandbox, emulated, memory
	Machine    string        `json:"machine"`
	Board      string        `json:"board,omitempty"`
	Points     int           `json:"points"`
	Invalid    int           `json:"invalid"` // of them
	Trials     int           `json:"trials"`
	Seconds    float64       `json:"seconds"`              // that they took, from the first to the last
	Unfinished bool          `json:"unfinished,omitempty"` // it goes on, or broke off
	Verdict    result.Status `json:"verdict"`
	Sentence   string        `json:"sentence"`
	Tags       []string      `json:"tags,omitempty"`

	key, environment int64
}

// A Filter says which runs are asked for. The zero Filter has all of them.
type Filter struct {
	Boxes                []string  // of one of these; none: any
	Role, Procedure, Tag string    // "": any
	Since, Until         time.Time // of the run's begin, Until excluded; zero: no bound
	Newest               int       // at most so many, the newest; 0: all
}

// Runs lists runs, the oldest first, each once. Where several bundles hold a run, Dir is
// one of this machine if there is one.
func (x *Index) Runs(ctx context.Context, f Filter) ([]Run, error) {
	query := `SELECT r.key, r.environment, r.id, r.start_ns, r.version, r.role, r.procedures, r.preset, r.topology, r.box, r.kind, r.machine, r.board,
		r.points, r.invalid, r.trials, r.seconds, r.unfinished, r.verdict, r.sentence, b.dir, b.host, b.tags
		FROM runs r JOIN bundles b ON b.run = r.key WHERE b.problem = ''`
	var args []any
	where := func(clause string, v any) {
		query += " AND " + clause
		args = append(args, v)
	}
	if f.Role != "" {
		where("r.role = ?", f.Role)
	}
	if !f.Since.IsZero() {
		where("r.start_ns >= ?", f.Since.UnixNano())
	}
	if !f.Until.IsZero() {
		where("r.start_ns < ?", f.Until.UnixNano())
	}
	rows, err := x.db.QueryContext(ctx, x.sql(query+" ORDER BY r.start_ns, r.key, b.dir"), args...)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	defer rows.Close()
	var runs []Run
	for rows.Next() {
		var r Run
		var ns int64
		var procedures, tags, verdict string
		if err := rows.Scan(&r.key, &r.environment, &r.ID, &ns, &r.Version, &r.Role, &procedures, &r.Preset, &r.Topology, &r.Box, &r.Kind, &r.Machine, &r.Board,
			&r.Points, &r.Invalid, &r.Trials, &r.Seconds, &r.Unfinished, &verdict, &r.Sentence, &r.Dir, &r.Host, &tags); err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		r.Start, r.Verdict, r.Procedures, r.Tags = time.Unix(0, ns).UTC(), result.Status(verdict), append([]string{}, unwords(procedures)...), unwords(tags)
		if f.Procedure != "" && !slices.Contains(r.Procedures, f.Procedure) || f.Tag != "" && !slices.Contains(r.Tags, f.Tag) || len(f.Boxes) > 0 && !slices.Contains(f.Boxes, r.Box) {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].key == r.key { // another bundle of the same run
			if runs[n-1].Host != x.host && r.Host == x.host {
				runs[n-1] = r
			}
			continue
		}
		runs = append(runs, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	slices.SortStableFunc(runs, oldestFirst)
	if f.Newest > 0 && len(runs) > f.Newest {
		runs = runs[len(runs)-f.Newest:]
	}
	return runs, nil
}

// Name is how commands name the run, where runs is the folder of runs at the default
// place.
func (r Run) Name(runs string) string {
	if name, ok := strings.CutPrefix(r.Dir, strings.TrimSuffix(runs, "/")+"/"); ok && !strings.Contains(name, "/") {
		return name
	}
	return r.Dir
}
