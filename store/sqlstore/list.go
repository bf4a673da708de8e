package sqlstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
)

// List implements [driver.Inspector]. Keys come in order. If cursor is not one of this store's,
// the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
	after, err := hex.DecodeString(q.Cursor)
	if err != nil {
		return nil, "", &driver.OptionError{Option: "List", Value: q.Cursor, Want: "a cursor that List returned"}
	}
	return s.ops.List(ctx, q, keysPerQuery, func(ctx context.Context, q driver.Listing) (infos []driver.LockInfo, next string, err error) {
		keys, last, err := s.used(ctx, q, after)
		if err == nil && len(keys) > 0 {
			infos, err = casstore.Readable(keys, errRow, func(keys []string) ([]driver.LockInfo, error) { return s.inspect(ctx, keys) })
		}
		return infos, hex.EncodeToString(last), err
	})
}

// used returns the first keys after the key after that q seems to show, of a page of the table, and the key
// after which the next page begins.
func (s *Store) used(ctx context.Context, q driver.Listing, after []byte) (keys []string, next []byte, err error) {
	condition, args := "lock_key > ?", []any{after}
	if q.Prefix != "" {
		condition += " AND lock_key >= ?"
		args = append(args, []byte(q.Prefix))
		if behind := behindAll([]byte(q.Prefix)); behind != nil {
			condition += " AND lock_key < ?"
			args = append(args, behind)
		}
	}
	inUse := fmt.Sprintf("members > 0 OR owner <> '' AND until > %s", s.d.clock)
	if q.Records {
		inUse += " OR record_until > " + s.d.clock
	}
	return s.page(ctx, s.q.lockTable, condition, args, inUse, pageRows, q.Limit)
}

// behindAll returns the first text after all that begin with prefix; nil: there is none.
func behindAll(prefix []byte) []byte {
	behind := slices.Clone(prefix)
	for i := len(behind) - 1; i >= 0; i-- {
		if behind[i] < 0xff {
			behind[i]++
			return behind[:i+1]
		}
	}
	return nil
}
