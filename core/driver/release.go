package driver

import (
	"errors"
	"time"
)

// RepeatedRelease returns what a store answers to a release of g that it has sent more than once, because
// an attempt had no answer. err is the last answer.
//
// If err says that the lease is another owner's, or nobody's, an earlier attempt has ended it, and the
// answer is nil (R1). But if the lease may have run out by now, somebody else may have had the key
// before that attempt arrived. err stays then (R2). It also stays if g has no Since.
func RepeatedRelease(g Grant, err error) error {
	var loss *LeaseLostError
	if !errors.As(err, &loss) || loss.Reason != LossTaken || g.Since.IsZero() {
		return err
	}
	term := g.Term
	if term <= 0 {
		term = g.TTL
	}
	if time.Since(g.Since) >= term {
		return err
	}
	return nil
}
