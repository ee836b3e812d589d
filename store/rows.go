// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// each calls f with each row of a query, which it may not keep. Unlike rows of database/sql,
// which locks and reflects for each of them, it takes little more time than the database.
func (x *Index) each(ctx context.Context, query string, args []any, f func(row []driver.Value) error) error {
	c, err := x.db.Conn(ctx)
	if err != nil {
		return err
	}
	named := make([]driver.NamedValue, len(args))
	for i, a := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	err = c.Raw(func(dc any) (err error) {
		rows, err := dc.(driver.QueryerContext).QueryContext(ctx, x.sql(query), named) // both drivers' connections are
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		row := make([]driver.Value, len(rows.Columns()))
		for n := 0; ; n++ {
			if n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			switch err := rows.Next(row); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			if err := f(row); err != nil {
				return err
			}
		}
	})
	return errors.Join(err, c.Close())
}

// take hands the columns of a row over. It is an error that one is of another kind: a file of
// SQLite may hold anything.
func take(row []driver.Value, into ...any) error {
	for i, to := range into {
		ok := false
		switch to := to.(type) {
		case *int64:
			*to, ok = row[i].(int64)
		case *float64:
			*to, ok = row[i].(float64)
		case *string:
			*to, ok = row[i].(string)
		case **float64:
			var v float64
			if v, ok = row[i].(float64); ok {
				*to = &v
			}
			ok = ok || row[i] == nil
		}
		if !ok {
			return fmt.Errorf("column %d of a row is %T: make the index anew with boxdyno index --rebuild", i+1, row[i])
		}
	}
	return nil
}
