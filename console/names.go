package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"net/url"
	"regexp"
	"sync"

	"github.com/keyturn/keyturn/core/driver"
)

// names is a source that calls each key as it may be shown (core.WithKeyFilter). All of the console sees
// nothing else. A filter may show many keys alike, so a name ends with a mark that tells them apart, and
// that says nothing to those who do not have this console's secret. A key that is shown as it is is its own
// name.
type names struct {
	Source
	secret [32]byte

	mu sync.Mutex
	// keys are the keys of the names that were given last, and older those of the names before. Together
	// they have those of all rows: a list comes round before they are forgotten.
	keys, older map[string]string
}

// mostNames bounds each half of the names: as many as the poller keeps rows.
const mostNames = 200_000

// errForgotten is for a name that stands for no key by now.
var errForgotten = errors.New("console: the key of this name was not seen for long")

func newNames(source Source) *names {
	n := &names{Source: source, keys: make(map[string]string)}
	_, _ = rand.Read(n.secret[:]) // never fails
	return n
}

// mark is the end of a name.
var mark = regexp.MustCompile(`#[0-9a-f]{12}$`)

// of returns the name of a key.
func (n *names) of(key string) string {
	shown := n.ShowKey(key)
	if shown == key {
		return key
	}
	sum := hmac.New(sha256.New, n.secret[:])
	_, _ = sum.Write([]byte(key)) // cannot fail
	end := "#" + hex.EncodeToString(sum.Sum(nil)[:6])
	name := shown + end
	if driver.ValidateKey(name) != nil {
		name = end
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, has := n.keys[name]; !has {
		if len(n.keys) >= mostNames {
			n.older, n.keys = n.keys, make(map[string]string)
		}
		n.keys[name] = key
	}
	return name
}

// hides reports whether name is not the key itself.
func (n *names) hides(name string) bool {
	key, err := n.key(name)
	return err != nil || key != name
}

// key returns the key of a name, or of a key that somebody has typed.
func (n *names) key(name string) (string, error) {
	n.mu.Lock()
	key, has := n.keys[name]
	if !has {
		key, has = n.older[name]
	}
	n.mu.Unlock()
	switch {
	case has:
		return key, nil
	case mark.MatchString(name) && n.ShowKey(name) != name:
		return "", errForgotten
	}
	return name, nil
}

// known returns the name of what somebody has typed or opened: a name or a key.
func (n *names) known(text string) string {
	if key, err := n.key(text); err == nil {
		return n.of(key)
	}
	return text
}

// open has a query ask for the name of the key that it asks for.
func (n *names) open(query url.Values) {
	if text := query.Get("k"); text != "" {
		query.Set("k", n.known(text))
	}
}

// Inspect implements [Source].
func (n *names) Inspect(ctx context.Context, name string) (driver.LockInfo, error) {
	key, err := n.key(name)
	if err != nil {
		return driver.LockInfo{}, err
	}
	info, err := n.Source.Inspect(ctx, key)
	info.Key = n.of(key)
	return info, err
}

// ListAll implements [Source].
func (n *names) ListAll(ctx context.Context, prefix string) iter.Seq2[driver.LockInfo, error] {
	return func(yield func(driver.LockInfo, error) bool) {
		for info, err := range n.Source.ListAll(ctx, prefix) {
			if err == nil {
				info.Key = n.of(info.Key)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// ForceRelease implements [Source].
func (n *names) ForceRelease(ctx context.Context, name, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	key, err := n.key(name)
	if err != nil {
		return nil, err
	}
	return n.Source.ForceRelease(ctx, key, reason, only...)
}

// Forget implements [Source].
func (n *names) Forget(ctx context.Context, name, reason string) (bool, error) {
	key, err := n.key(name)
	if err != nil {
		return false, err
	}
	return n.Source.Forget(ctx, key, reason)
}
