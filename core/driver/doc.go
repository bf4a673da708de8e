// Package driver is the contract between package core and a store. Programs that only
// take locks do not need it: they open a store and pass it to core.New.
//
// A store implements [Store], and says in its [Description] what it can do: other modes
// than exclusive, remembering finished executions ([Ledger]), showing and breaking locks
// ([Inspector]). The numbered sentences in the comments are the contract; package
// core/drivertest has a test for each. The engine does what is the same for every store:
// validation, the line of callers within a process, renewal, deadlines, re-entrance,
// contexts and hooks.
//
// Package core exports the types and errors that its users need under the same names.
//
// # The sentences
//
//   - A1 to A14: Acquire; with M1 to M4 and M6 for modes, S1 and S2 for sets
//   - M5, M7, M8: Downgrade
//   - N1 to N7: Renew
//   - R1 to R6: Release
//   - L1 to L13: Ledger: records and versions
//   - I1 to I12: Inspector: looking and breaking
//   - W1 to W5: OnWanted: a process learns that a lease of its own is wanted
//
// The suite also has positive controls: broken stores that it must reject.
//
// Acquire is idempotent by owner: sent again after a lost reply it returns the same grant, so a
// client library may retry. If it returns an error, nothing is left behind, or what is left
// expires within the TTL.
//
// # One description
//
// Store.Describe returns one struct with all that is optional: the store's name, its modes,
// sets, records and inspection, and the functions that only some stores have (Partition,
// Identity, OnImpaired, OnWanted). The zero value supports exclusive claims, one at a time.
// Most stores support everything; redlock supports exclusive claims only. A claim that the store
// does not support gets an error that matches errors.ErrUnsupported, before any I/O. For a rule,
// the constructor of the middleware returns it.
//
// Optional interfaces would be the usual way in Go. But a wrapper that embeds a Store, to
// count its calls for example, loses each of them without a word: Once is refused, and a
// failover goes unnoticed. With one description and one interface the wrapper keeps what it
// does not override. A store that does only a part embeds driver.Unsupported, which refuses
// the rest.
//
// # A min hold
//
// The engine releases with what is left of it (Grant.MinHold), and the store keeps the key for
// that long. The lease is over for its owner, so a renewal that comes late is refused: it must
// not keep the key for another TTL. An unanswered release is a debt as usual, and each try
// asks for what is left by then. Such a lease is never handed on.
//
// # What a store cannot keep
//
// Some stores keep leases for whole seconds only, or not for long. Description.TTLs has the
// bounds and the step. The engine rounds a TTL up to a step, never down, because a lease must
// not end before the time that its holder asked for. It refuses what is out of bounds in
// core.New, in a rule's constructor, in the call and in Lease.Extend, before any I/O. A store
// such as Redlock cannot say which waiter came first: it sets Unordered, and the sentences
// about order do not hold for it.
//
// # Sets are bounded
//
// A set has at most 4096 claims (MaxClaims), as many as a template makes of a list. The size
// of a set often comes from a request, and a store carries out one request at a time.
//
// # Tokens
//
// A grant takes token = max(last + 1, clock in microseconds) at the store, in the step that
// grants. It may also reserve the tokens that follow, one for each time that the lease may be
// handed on, and last becomes the last of them:
//
//   - T: the lease that the store granted
//   - T + 1 to T + n: the leases that it is handed on as, one after the other; unused ones are
//     lost
//   - T + n + 1, or the clock if that is greater: the next grant
//
// The invariant is: the counter is at least as great as every token that any lease of the key
// has had or can get. Each grant keeps it in one atomic step, and no later step needs to. A
// release need not say how many tokens were used. So a crash, a forced release, a lost answer
// or a lease that ran out cannot break it, and neither can a clock that is set back meanwhile:
// the next token is above the counter. Along a streak of hand-offs each token is one greater.
//
// The clock takes over when the counter is lost: FLUSHALL, a restart without persistence, a
// failover to a replica that lags. The next token is then the clock, and every earlier one
// must be below it. So a grant reserves nothing that is more than 1 ms (MaxLead) ahead of the
// clock. After the clock was set back, nothing is reserved until it has caught up with the
// counter, and leases go back to the store instead of being handed on. What remains: a clock
// that was set back and a counter that was lost; and a counter that was lost less than 1 ms
// after a grant.
//
// A store whose tokens follow no clock reserves as many as it can count, or none. Zero is
// always right: the lease is then not handed on. A clock gives a million tokens per second,
// and all grants that use one counter share them. So the engine asks for 1000 only after its
// caller had to wait in line or if the lease may linger, and for 15 otherwise: 20 000
// uncontended grants per second then take a third. A grant that finds too few left reserves
// fewer, and its lease goes back to the store sooner.
//
// Tokens stay below 2^53 until the year 2255. Up to there doubles are exact, so JavaScript,
// Lua and JSON readers can compare them. On a Cluster each lock has a counter of its own,
// which is dropped when the clock is an hour beyond its last token. All modes of a key use the
// same counter, and a set takes one token that is greater than the counters of all of its
// keys. A borrowed lease (core/experimental/carry) has the token of the lender's lease. The
// text says the grant's token and how often it was handed on, and the store checks both (N5,
// N7). The lock of a foreign client has no token.
package driver
