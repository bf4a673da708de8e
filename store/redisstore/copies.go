package redisstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// A client that gets no answer closes its connection and sends the request again on another one.
// The first copy may arrive all the same: what the network has lost, TCP sends again for minutes,
// also for a connection that was closed meanwhile. If the copy arrives after the release, it takes
// the key for an owner that nobody knows any more, for a whole TTL. The server cannot tell such a
// copy from a new request. So the store releases the lease several times.
const (
	// firstCopyPause is the first pause before such a release. TCP on Linux sends again after 0.2 s,
	// and then after pauses that double.
	firstCopyPause = 100 * time.Millisecond
	// lastCopyPause is the last pause. The releases come 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7 and 25.5 s
	// after the first one. So a copy keeps the key for about as long as it was late.
	lastCopyPause = 12800 * time.Millisecond
	// mostCopies is how many leases are looked after at a time. Beyond it, a copy keeps its key for
	// the TTL.
	mostCopies = 1000
)

// dropCopies ends what late copies of owner's request take of claims, from after on.
func (s *Store) dropCopies(owner string, claims []driver.Claim, after time.Duration) {
	defer s.copies.Add(-1)
	if s.copies.Add(1) > mostCopies || !waitloop.Sleep(s.ctx, after) {
		return
	}
	for pause := firstCopyPause; pause <= lastCopyPause && waitloop.Sleep(s.ctx, pause); pause *= 2 {
		_ = s.tryRelease(owner, s.releases(owner, claims, 0)) // without an answer: the next time
	}
}
