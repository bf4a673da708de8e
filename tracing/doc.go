// Package tracing makes every lock visible as OpenTelemetry spans and metrics:
// how long a request waited for its turn, for whom, and what came of it; how
// long it held the key, and what it did meanwhile.
//
//	hooks, err := tracing.New()
//	...
//	eng, err := core.New(store, core.WithHooks(hooks))
//
// It needs the OpenTelemetry API only; which SDK receives the spans and the
// measurements, if any, is the program's choice. What is neither recorded nor
// collected costs no allocation here. docs/observability.md shows how to set one
// up, and lists the metrics.
//
// # Spans
//
// All are of kind INTERNAL. keyturn.acquire lasts from asking to granted or
// refused; keyturn.hold from granted to released or lost. They are siblings
// under the caller's span, and what the holder does under the lease's context
// lies under keyturn.hold. keyturn.once is around both, or around an
// acquisition alone that found a record:
//
//	caller
//	  keyturn.once       outcome executed
//	    keyturn.acquire  outcome granted, the time waited
//	    keyturn.hold     outcome released, the fencing token
//	      handler
//
// A lost hold ends when the loss is noticed. A handler that goes on has spans
// that outlast it.
//
// Samplers see keyturn.rule, keyturn.store and what [WithAttributes] gives: all
// spans start with them.
//
// # Links
//
// A keyturn.acquire that finds the key held is linked to the keyturn.acquire of
// the holder, in whatever process that is (keyturn.link is blocked_by): from a
// slow request one click leads to the one that held the key. There are several
// where one after the other was in the way, at most eight. A keyturn.once that
// is a duplicate is linked to the hold of the execution whose result it gets
// (executed_by).
//
// Who waits for a lease that goes from hand to hand in its own process is linked
// to who had it when it came, to who had it before it got it, and, where it asks
// the store after all, to who had it then. The store knows of no hands: for the
// other processes the holder is the one that the lease was granted to, until it
// is released.
//
// Links need a store that keeps traces, and a holder whose span was sampled.
//
// # Attributes
//
//	attribute               type      on                                                       meaning
//	keyturn.rule            string    acquire, hold, once, unlocked                            the name given with core.WithRule, if any
//	keyturn.key_hash        string    acquire, hold, once, unlocked, forced                    keyed hash of the key
//	keyturn.key_hashes      string[]  acquire, hold, unlocked                                  the same of a claim set, 16 at most
//	keyturn.key             string    acquire, hold, once, unlocked, forced                    the key itself, instead of the hash, if allowed
//	keyturn.keys            string[]  acquire, hold, unlocked                                  the same of a claim set, 16 at most
//	keyturn.claims          int       acquire, hold, unlocked                                  number of claims, if several
//	keyturn.mode            string    acquire, hold, unlocked, extended                        exclusive, shared, permit; mixed, of a claim set
//	keyturn.outcome         string    acquire, hold, once, extended                            see below
//	keyturn.queue           string    acquire                                                  where it began to wait: local, in the line of this process, or store
//	keyturn.queue_position  int       acquire                                                  how many asked before it and wait too, when it found the key held
//	keyturn.attempts        int       acquire                                                  how often the store was asked, by its answers: see observe.Acquisition
//	keyturn.handed_off      bool      acquire                                                  true: from another holder in this process, without asking the store
//	keyturn.wait            double    acquire                                                  seconds from asking to the outcome
//	keyturn.token           int       hold                                                     fencing token
//	keyturn.owner           string    hold                                                     the value stored for the lease, if allowed
//	keyturn.holder          string    acquire                                                  the same of whoever was in the way last, if allowed and known
//	keyturn.ttl             double    hold, extended                                           seconds the store keeps the lease after a renewal
//	keyturn.loss_reason     string    hold                                                     expired, taken, max_hold, suspended, closed, forced, outer
//	keyturn.holders         int       forced                                                   whose leases were taken away
//	keyturn.late            double    renewed_late                                             seconds a renewal was sent after it was due
//	keyturn.ran_unlocked    bool      once, caller                                             true: ran without its lock, as allowed
//	keyturn.not_kept        bool      once                                                     true: on record without its result
//	keyturn.store           string    acquire, hold, once, unlocked, forced                    redis, memory: what the store says that it is
//	error.type              string    acquire, hold, once, unlocked, renewal_failed, extended  see below
//
// The events keyturn.renewed_late (by a tenth of the TTL or more),
// keyturn.renewal_failed (it is tried again), keyturn.extended (with an
// outcome: it was not) and keyturn.lost are on the hold.
// keyturn.unlocked is on the span that is current where the work runs without
// its lock, that is the caller's or keyturn.once; see core.WithRunUnlocked.
// keyturn.forced is on the span in which an operator took a lease or a record
// away.
//
// # Outcomes
//
//	outcome            on                   means                                        error.type
//	granted            acquire              there is a lease
//	nested             acquire              the caller holds it already
//	released           hold                 by its holder
//	executed           once                 the function ran and succeeded
//	duplicate          acquire, once        the execution is on record
//	held               acquire              by another, and the caller would not wait
//	wait_timeout       acquire              still held when the maximum wait was over
//	in_flight          once                 the first execution is under way
//	too_many_waiters   acquire, once        the line in this process is full
//	mismatch           once                 on record with other content
//	canceled           acquire, once        the caller's context was cancelled
//	deadline           acquire, once        the caller's context reached its deadline
//	unavailable        acquire, hold, once  the store could not answer in time       unavailable
//	closed             acquire, hold, once  the engine was closed                    closed
//	lost               hold, once           the lease ended before its holder did    lease_lost
//	unknown            hold, once           the store did not say whether it ended   outcome_unknown
//	failed             once                 the function ran and is not on record    handler, panic
//	error              acquire, once        anything else                            invalid_key, would_deadlock, panic, _OTHER
//
// A span has the status Error when it has an error.type, and only then.
// Contention, a full line, duplicates and the caller's own end are none: the
// lock did its work, and whether the request has failed is for the request's
// span to say.
//
// # Privacy
//
// A key often has a person's number in it, and spans go far. So a key is shown
// as a keyed hash (HMAC-SHA-256, 64 bits): equal keys can be matched, and
// nobody without the secret can find a key by trying, as would be easy with a
// plain hash of something like user:status:42. The secret is random for each
// call of [New]; to match keys across processes set one with [WithKeySecret], or
// allow the keys themselves with [WithRawKeysFor] or [WithRawKeys]. Owners, who
// name machines, are shown with [WithOwners] only. Error texts, payloads and
// results are in no span and no metric.
// With a lease and a record the store keeps a traceparent: two random numbers.
package tracing
