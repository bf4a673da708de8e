package core

import (
	"errors"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
)

// WithKeyFilter has everything that the engine says about keys show filter(key) instead of the key:
// its log lines, what it tells hooks (so spans, too; not the store's own error in StoreCalled), and the
// keys and texts of its errors, also if a store or an [Executor] wrote the text. It is for keys that must not
// leave the process, such as those that name a person. What the store keeps is the key itself, and so is what
// the program gets of it: [Lease.Key], [Lease.Claims], [Engine.Inspect], [Engine.List], and the Key of a
// reasons.Refusal. [Engine.ShowKey] is for those who show these, such as a page for operators. The filter is the
// engine's: the functions of package fence that have no engine name ids and resources as they are.
//
// filter is called from many goroutines, for every key that is shown, so it should be quick. It may be called
// under a mutex, so it must not call the engine or a lease. Equal
// keys should stay equal, and different ones different, so that a reader can tell them apart: use a
// hash with a secret, or cut off the part that is secret. A nil filter, and the default, shows keys.
func WithKeyFilter(filter func(key string) string) EngineOption {
	return engineOption(func(c *engineConfig) error {
		c.keyFilter = filter
		return nil
	})
}

// ShowKey returns key as it may be shown: see [WithKeyFilter].
func (e *Engine) ShowKey(key string) string {
	if e.keyFilter == nil {
		return key
	}
	return e.keyFilter(key)
}

// showClaims is ShowKey for claims.
func (e *Engine) showClaims(claims []Claim) []Claim {
	if e.keyFilter == nil {
		return claims
	}
	shown := slices.Clone(claims)
	for i := range shown {
		shown[i].Key = e.keyFilter(shown[i].Key)
	}
	return shown
}

// checkKey returns what is wrong with key, as it may be shown.
func (e *Engine) checkKey(key string) error { return e.showError(driver.ValidateKey(key)) }

// showError changes the keys in an error about wrong input, which nobody else has yet.
func (e *Engine) showError(err error) error {
	if e.keyFilter == nil {
		return err
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range all.Unwrap() {
			_ = e.showError(one)
		}
		return err
	}
	var key *KeyError
	var claim *driver.ClaimError
	var circle *driver.DeadlockError
	switch {
	case errors.As(err, &key):
		key.Key = e.keyFilter(key.Key)
	case errors.As(err, &claim):
		claim.Key = e.keyFilter(claim.Key)
	case errors.As(err, &circle):
		circle.Key = e.keyFilter(circle.Key)
		circle.Held.Key, circle.Wanted.Key = circle.Key, circle.Key
	}
	return err
}
