package watchdog

import (
	"context"
	"errors"
	"math/bits"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// request is a request to the store for one lease. The watch is in state renewing meanwhile.
// The maker of a request owes a [Watch.take].
type request struct {
	watch   *Watch
	grant   driver.Grant
	term    time.Duration // the shorter of the present term and the new one; the store may take a third of it
	convert bool          // the store may have the claims in other modes
	late    time.Duration // how late it was sent, once it is answered
}

// request takes the place of the next renewal. Needs the shard's mutex.
func (w *Watch) request(now moment, ch change) request {
	t := &w.term
	left := t.left(now)
	if ch.ttl != 0 {
		left = min(left, ch.ttl)
	}
	g := t.request(ch)
	return request{watch: w, grant: g, term: left, convert: t.convert}
}

// batches divides the due requests. In each batch the longest term is less than twice the
// shortest, because a batch has as long as its shortest term allows. The
// requests of a batch also need the same parts of the store: a part that does not answer would
// keep the other parts' answers until the batch times out. A request that is no plain renewal
// is a batch by itself.
func (d *Watchdog) batches(due []request) [][]request {
	type kind struct {
		parts  string
		length int
	}
	var all [][]request
	at := make(map[kind]int) // in all
	for _, r := range due {
		k := kind{d.config.Parts(r.grant.Claims), bits.Len64(uint64(r.term))}
		i, ok := at[k]
		if !ok || r.convert {
			i = len(all)
			all = append(all, nil)
		}
		if !r.convert {
			at[k] = i
		}
		all[i] = append(all[i], r)
	}
	return all
}

// renew sends one batch. Each lease takes its own answer, and then the holders are told.
func (d *Watchdog) renew(ctx context.Context, batch []request) {
	bound, grants := batch[0].term, make([]driver.Grant, len(batch))
	for i, r := range batch {
		bound, grants[i] = min(bound, r.term), r.grant
	}
	// A third of the term: after a store that hangs there is time for another try.
	ctx, cancel := context.WithTimeout(ctx, bound/3)
	defer cancel()
	sent := time.Now()
	errs := d.send(ctx, batch[0].convert, grants...)
	answered := time.Now() // one time for all, so that those that failed stay together
	var latest time.Duration
	for i := range batch { // all of them first: to tell of one may take longer than the others have
		r := &batch[i]
		r.late = r.watch.take(*r, sent, answered, errs[i])
		latest = max(latest, r.late)
	}
	for i, r := range batch {
		r.watch.tell(errs[i])
		r.watch.holder.Renewed(r.late, errs[i])
	}
	if took := latest + answered.Sub(sent); len(batch) >= fewLeases && took > bound/6 {
		d.config.Slow(ctx, len(batch), took, bound/3)
	}
}

// fewLeases is how many leases a process can always renew.
const fewLeases = 1000

// errNoAnswer says that a store returned fewer answers than it was asked for.
var errNoAnswer = errors.New("keyturn: the store gave no answer for this lease")

// Renew asks the store now for another term of grants that the watchdog does not keep. It returns one
// answer for each.
func (d *Watchdog) Renew(ctx context.Context, grants ...driver.Grant) []error {
	return d.send(ctx, false, grants...)
}

// send asks the store, and returns one answer for each grant. convert: to downgrade the only one.
func (d *Watchdog) send(ctx context.Context, convert bool, grants ...driver.Grant) (errs []error) {
	op, asked := "renew", time.Now()
	if convert {
		op, errs = "downgrade", []error{d.config.Store.Downgrade(ctx, grants[0])}
	} else {
		errs = d.config.Store.Renew(ctx, grants)
	}
	for len(errs) < len(grants) {
		errs = append(errs, errNoAnswer)
	}
	if d.config.Called != nil {
		d.config.Called(op, asked, errors.Join(errs...))
	}
	for i, g := range grants {
		d.config.Answered(g.Claims, errs[i])
	}
	return errs
}
