// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// migrations make the schema, each from the one before it. Their SQL is understood by
// SQLite and PostgreSQL alike. One that was published is never changed: add another.
//
//	bundles --run--> runs --environment--> environments
//	                  ^
//	figures --run-----+
//	   +-----series--> series
//
// Keys are 64 bits of a SHA-256, so that two writers give a thing the same key.
var migrations = []string{
	`CREATE TABLE folders (
		host TEXT NOT NULL,
		dir TEXT NOT NULL,
		PRIMARY KEY (host, dir)
	);
	CREATE TABLE bundles (
		host TEXT NOT NULL,
		dir TEXT NOT NULL,
		stamp TEXT NOT NULL,
		run BIGINT NOT NULL,
		tags TEXT NOT NULL,
		problem TEXT NOT NULL,
		PRIMARY KEY (host, dir)
	);
	CREATE INDEX bundles_run ON bundles (run);
	CREATE TABLE environments (
		key BIGINT NOT NULL PRIMARY KEY,
		pairs TEXT NOT NULL
	);
	CREATE TABLE runs (
		key BIGINT NOT NULL PRIMARY KEY,
		id TEXT NOT NULL,
		start_ns BIGINT NOT NULL,
		version TEXT NOT NULL,
		role TEXT NOT NULL,
		preset TEXT NOT NULL,
		topology TEXT NOT NULL,
		box TEXT NOT NULL,
		kind TEXT NOT NULL,
		machine TEXT NOT NULL,
		board TEXT NOT NULL,
		procedures TEXT NOT NULL,
		points BIGINT NOT NULL,
		invalid BIGINT NOT NULL,
		trials BIGINT NOT NULL,
		unfinished BIGINT NOT NULL,
		verdict TEXT NOT NULL,
		sentence TEXT NOT NULL,
		environment BIGINT NOT NULL
	);
	CREATE INDEX runs_start ON runs (start_ns);
	CREATE TABLE series (
		key BIGINT NOT NULL PRIMARY KEY,
		metric TEXT NOT NULL,
		unit TEXT NOT NULL,
		better BIGINT NOT NULL,
		settings TEXT NOT NULL
	);
	CREATE INDEX series_metric ON series (metric);
	CREATE TABLE figures (
		series BIGINT NOT NULL,
		run BIGINT NOT NULL,
		ordinal BIGINT NOT NULL,
		value DOUBLE PRECISION NOT NULL,
		lo DOUBLE PRECISION,
		hi DOUBLE PRECISION,
		bound TEXT NOT NULL
	);
	CREATE INDEX figures_series ON figures (series);
	CREATE INDEX figures_run ON figures (run);`,
	// The figures of a series lie far from each other, but in this index.
	`DROP INDEX figures_series;
	CREATE INDEX figures_of_series ON figures (series, run, ordinal, value, lo, hi, bound);`,
	`ALTER TABLE runs ADD COLUMN seconds DOUBLE PRECISION NOT NULL DEFAULT 0;`,
}

// migrate brings the schema to the newest version.
func (x *Index) migrate(ctx context.Context) error {
	return x.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS boxdyno_schema (version BIGINT NOT NULL)`); err != nil {
			return err
		}
		var have int
		err := tx.QueryRowContext(ctx, `SELECT version FROM boxdyno_schema`).Scan(&have)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = tx.ExecContext(ctx, `INSERT INTO boxdyno_schema (version) VALUES (0)`)
		}
		if err != nil {
			return err
		}
		if have > len(migrations) {
			return fmt.Errorf("its schema has version %d, and this boxdyno knows %d: use the boxdyno that made it, or another index", have, len(migrations))
		}
		for _, m := range migrations[have:] {
			if _, err := tx.ExecContext(ctx, m); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, x.sql(`UPDATE boxdyno_schema SET version = ?`), len(migrations))
		return err
	})
}
