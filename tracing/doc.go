// Package tracing shows every lock as OpenTelemetry spans and metrics: how long a request
// waited for its turn, for which holder, and how that ended; how long it held the key, and what
// it did meanwhile.
//
//	hooks, err := tracing.New()
//	...
//	eng, err := core.New(store, core.WithHooks(hooks))
//
// It needs only the OpenTelemetry API. The program chooses the SDK, if any, that receives the
// spans and the measurements. What is neither recorded nor collected costs no allocation here.
// docs/observability.md shows where the hooks go, and lists the metrics.
//
// # Spans
//
// All spans are of kind INTERNAL. keyturn.acquire lasts from the request to the grant or the
// refusal, and keyturn.hold from the grant to the release or the loss. They are siblings under
// the caller's span. What the holder does under the lease's context is below keyturn.hold.
// keyturn.once contains both, or only an acquisition that found a record:
//
//	caller
//	  keyturn.once       outcome executed
//	    keyturn.acquire  outcome granted, the time waited
//	    keyturn.hold     outcome released, the fencing token
//	      handler
//
// The hold of a lost lease ends when the loss is noticed. If the handler goes on, its spans
// last longer than the hold.
//
// Samplers see keyturn.rule, keyturn.store and the attributes of [WithAttributes]: all spans
// start with them.
//
// # Links
//
// A keyturn.acquire that finds the key held has a link to the keyturn.acquire of the holder, in
// whatever process that is (keyturn.link is blocked_by). So one click leads from a slow request
// to the one that held the key. If several holders were in the way, one after the other, there
// are several links, eight at most. A keyturn.once that is a duplicate has a link to the hold
// of the execution whose result it gets (executed_by).
//
// Some leases are handed on within a process. A request that waits in that process has links to
// the holder when it came and to the last holder before it. If it asks the store after all, it
// also has a link to the holder at that moment. The store does not know of hand-offs. So for
// other processes, the holder is the request that the lease was granted to, until the lease is
// released.
//
// Links need a trace store, and a holder whose span was sampled.
//
// # Attributes
//
//	attribute               type      on                                                       meaning
//	keyturn.rule            string    acquire, hold, once, unlocked                            the name given with core.WithRule, if any
//	keyturn.key_hash        string    acquire, hold, once, unlocked, forced                    keyed hash of the key
//	keyturn.key_hashes      string[]  acquire, hold, unlocked                                  the same for a claim set, 16 at most
//	keyturn.key             string    acquire, hold, once, unlocked, forced                    the key itself, instead of the hash, if allowed
//	keyturn.keys            string[]  acquire, hold, unlocked                                  the same for a claim set, 16 at most
//	keyturn.claims          int       acquire, hold, unlocked                                  number of claims, if several
//	keyturn.mode            string    acquire, hold, unlocked, extended                        exclusive, shared, permit; mixed for a claim set with several
//	keyturn.outcome         string    acquire, hold, once, extended                            see below
//	keyturn.queue           string    acquire                                                  where it began to wait: local, in the line of this process, or store
//	keyturn.queue_position  int       acquire                                                  how many waiters were in front when it found the key held
//	keyturn.attempts        int       acquire                                                  how often the store was asked, by its answers: see observe.Acquisition
//	keyturn.handed_off      bool      acquire                                                  true: another holder in this process handed the lease on, without asking the store
//	keyturn.lingered        bool      acquire                                                  true: the lease had been kept since its last holder's release (core.WithLinger)
//	keyturn.wait            double    acquire                                                  seconds from the request to the outcome
//	keyturn.token           int       hold                                                     fencing token
//	keyturn.owner           string    hold                                                     the value stored for the lease, if allowed
//	keyturn.holder          string    acquire                                                  the same for the last holder in the way, if allowed and known
//	keyturn.ttl             double    hold, extended                                           seconds for which the store keeps the lease after a renewal
//	keyturn.loss_reason     string    hold                                                     expired, taken, max_hold, suspended, closed, forced, outer
//	keyturn.holders         int       forced                                                   number of leases that were taken away
//	keyturn.late            double    renewed_late                                             seconds by which a renewal was sent after it was due
//	keyturn.ran_unlocked    bool      once, caller                                             true: ran without its lock, as allowed
//	keyturn.shadow          bool      acquire, hold, once                                      true: nothing was locked, as it would have been so (core.WithShadow)
//	keyturn.not_kept        bool      once                                                     true: on record without its result
//	keyturn.early           bool      hold                                                     true: the holder released it before its work was over
//	keyturn.store           string    acquire, hold, once, unlocked, forced                    the store's name, such as redis or memory
//	error.type              string    acquire, hold, once, unlocked, renewal_failed, extended  see below
//
// These events are on the hold: keyturn.renewed_late (a renewal was sent a tenth of the TTL or
// more after it was due), keyturn.renewal_failed (it is tried again), keyturn.extended (with an
// outcome if the extension failed) and keyturn.lost. keyturn.unlocked is on the span that is
// current when the work runs without its lock: the caller's, or keyturn.once; see
// core.WithRunUnlocked. keyturn.forced is on the span in which an operator took a lease or a
// record away.
//
// # Outcomes
//
//	outcome            on                   means                                        error.type
//	granted            acquire              there is a lease
//	nested             acquire              the caller holds the key already
//	released           hold                 released by its holder
//	executed           once                 the function ran and succeeded
//	duplicate          acquire, once        the execution is on record
//	held               acquire              another has the key, and the caller would not wait
//	wait_timeout       acquire              still held when the maximum wait was over
//	in_flight          once                 the first execution is under way
//	too_many_waiters   acquire, once        the line in this process is full
//	not_rehearsed      acquire              a call of a shadow, while too many were rehearsed
//	mismatch           once                 on record with other content
//	rolled_back        once                 another transaction of the database was in the way
//	canceled           acquire, once        the caller's context was cancelled
//	deadline           acquire, once        the caller's context reached its deadline
//	unavailable        acquire, hold, once  the store did not answer in time         unavailable
//	closed             acquire, hold, once  the engine was closed                    closed
//	lost               hold, once           the lease ended before its holder did    lease_lost
//	unknown            hold, once           the store did not say whether it ended   outcome_unknown
//	failed             once                 the function ran and is not on record    handler, panic
//	error              acquire, once        anything else                            invalid_key, would_deadlock, panic, _OTHER
//
// A span has the status Error if, and only if, it has an error.type. Contention, a full line,
// duplicates and the end of the caller's context are no errors: the lock did its work. Whether
// the request has failed is for the request's span to say.
//
// # Privacy
//
// A key often contains a person's number, and spans are sent to many places. So a span shows a
// keyed hash of the key (HMAC-SHA-256, 64 bits). Equal keys have equal hashes, and nobody
// without the secret can find a key by trying. With a plain hash of something like
// user:status:42 that would be easy. The secret is random for each call of [New]. To match keys
// across processes, set one with [WithKeySecret], or allow the keys themselves with
// [WithRawKeysFor] or [WithRawKeys]. Owners name machines, so they are shown only with
// [WithOwners]. Error texts, payloads and results are in no span and no metric. The store keeps
// a traceparent with each lease and record: two random numbers.
package tracing
