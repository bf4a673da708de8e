package zkstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// forcedFor is how long owners can learn why their lease was taken. They ask within a third of
// their TTL; one that has not asked by then is gone.
const forcedFor = time.Hour

// maxReasonBytes bounds the reason that is kept.
const maxReasonBytes = 4096

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour, up to its
// first 4096 bytes.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	return s.ops.ForceRelease(ctx, key, reason[:min(len(reason), maxReasonBytes)], only...)
}
