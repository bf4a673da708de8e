// Package migrating belongs to docs/migrating.md. It has the code of a service that locks by other means,
// and the same with keyturn. The tests run both at once on one server, as during a
// roll-out: each excludes the other, waits for it, renews beside it, and gets the key after the
// other has crashed.
package migrating

import "context"

// work is what a service does while it holds a lock.
type work func(ctx context.Context) error
