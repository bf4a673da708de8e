package sqlstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
)

// defaultPage is how many keys List looks for if limit is below 1.
const defaultPage = 100

// List implements [driver.Inspector]. Keys come in order. If cursor is not one of this store's,
// the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, prefix, cursor string, limit int) ([]driver.LockInfo, string, error) {
	after, err := hex.DecodeString(cursor)
	if err != nil {
		return nil, "", &driver.OptionError{Option: "List", Value: cursor, Want: "a cursor that List returned"}
	}
	if limit < 1 {
		limit = defaultPage
	}
	limit = min(limit, keysPerQuery)
	if err := s.calls.Enter(); err != nil {
		return nil, "", err
	}
	defer s.calls.Leave()
	type page struct {
		infos []driver.LockInfo
		next  string
	}
	p, err, answered := do(ctx, s, s.room, nil, func(ctx context.Context) (p page, err error) {
		keys, next, err := s.used(ctx, prefix, after, limit)
		p.next = hex.EncodeToString(next)
		if err != nil || len(keys) == 0 {
			return p, err
		}
		p.infos, err = s.inspect(ctx, keys)
		p.infos = slices.DeleteFunc(p.infos, driver.LockInfo.IsFree)
		return p, err
	}, nil)
	return p.infos, p.next, s.conclude(ctx, "list", "", answered, false, err)
}

// used returns the first keys after the key after that begin with prefix and seem to be in use, of a page
// of the table, and the key after which the next page begins.
func (s *Store) used(ctx context.Context, prefix string, after []byte, limit int) (keys []string, next []byte, err error) {
	condition, args := "lock_key > ?", []any{after}
	if prefix != "" {
		condition += " AND lock_key >= ?"
		args = append(args, []byte(prefix))
		if behind := behindAll([]byte(prefix)); behind != nil {
			condition += " AND lock_key < ?"
			args = append(args, behind)
		}
	}
	inUse := fmt.Sprintf("members > 0 OR record_until > %s OR owner <> '' AND until > %s", s.d.clock, s.d.clock)
	return s.page(ctx, s.q.lockTable, condition, args, inUse, limit)
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
