package migrating

import (
	"context"

	"github.com/keyturn/keyturn/core"
)

// snippet

// withThreeKeys is for a rueidislock with its default, KeyMajority 2: whoever has two of its three
// keys has the lock. The prefix of the engine is "rueidislock:".
func withThreeKeys(ctx context.Context, eng *core.Engine, order string, charge work) error {
	two := []core.Claim{core.Exclusive("0:order:" + order), core.Exclusive("1:order:" + order)}
	return eng.DoAll(ctx, two, charge)
}

// end snippet
