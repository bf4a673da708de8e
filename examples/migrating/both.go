package migrating

import (
	"context"

	"github.com/keyturn/keyturn/core"
)

// snippet

// withBoth is the version between the old and the new one. It excludes processes that know only
// the old lock, and processes that know only the new one.
func withBoth(ctx context.Context, eng *core.Engine, withOld func(context.Context, string, work) error, order string, charge work) error {
	return eng.Do(ctx, "order:"+order, func(ctx context.Context) error {
		return withOld(ctx, order, charge)
	})
}

// end snippet
