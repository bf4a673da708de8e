package natsstore

import (
	"context"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	return s.ops.Inspect(ctx, key)
}

// show shows keys as they are. It changes nothing, also not what is over.
func (s *Store) show(ctx context.Context, keys []string) ([]driver.LockInfo, error) {
	var t *tx
	for r := (retries{}); ; {
		t = &tx{s: s}
		err := t.load(ctx, keys)
		if err == nil {
			break
		}
		if !r.again(ctx, err) {
			return nil, err
		}
	}
	infos := make([]driver.LockInfo, len(keys))
	for i, k := range t.Keys {
		infos[i] = t.Show(k)
	}
	return infos, nil
}

// mostPage is how many keys List looks for at most.
const mostPage = 1000

// List implements [driver.Inspector]. Keys come in the order of their names in the bucket. The names of all
// entries are asked for with each page. A listing without records reads those, too: an entry has all of its key.
// If cursor is not one of this store's, the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
	if _, ok := keyNames.Key(q.Cursor); !ok && q.Cursor != "" {
		return nil, "", &driver.OptionError{Option: "List", Value: q.Cursor, Want: "a cursor that List returned"}
	}
	return s.ops.List(ctx, q, mostPage, s.page)
}

func (s *Store) page(ctx context.Context, q driver.Listing) (infos []driver.LockInfo, next string, err error) {
	names, err := s.bucket.names(ctx)
	if err != nil {
		return nil, "", err
	}
	var keys []string
	for _, name := range names {
		key, ok := keyNames.Key(name)
		if !ok || name <= q.Cursor || !strings.HasPrefix(key, q.Prefix) {
			continue
		}
		if len(keys) == q.Limit {
			next = keyNames.Of(keys[q.Limit-1])
			break
		}
		keys = append(keys, key)
	}
	infos, err = casstore.Readable(keys, errValue, func(keys []string) ([]driver.LockInfo, error) { return s.show(ctx, keys) })
	return infos, next, err
}

// names returns the names of all entries, in order.
func (b *bucket) names(ctx context.Context) (names []string, err error) {
	st, err := b.ask(ctx)
	if err != nil {
		return nil, err
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(b.subject(">")))
	if err != nil {
		return nil, err
	}
	for subject := range info.State.Subjects {
		names = append(names, strings.TrimPrefix(subject, b.subject("")))
	}
	slices.Sort(names)
	return names, nil
}
