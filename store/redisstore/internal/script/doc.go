// Package script holds the Lua scripts of redisstore, and all code that reads or writes what
// they exchange with Go. That is the names of the keys, the words of a request, the words of a
// reply, and the formats of the data in Redis: the lock's value, a record, a waiter's message.
// A change of a format changes one .lua and one .go file here, and nothing else.
//
// The package builds calls and reads answers. It does not know how a call gets to a server, who
// waits for it, or when a waiter asks.
//
// # Acquire
//
// If the owner has the lock already, it gets the full TTL again and the same token. If another
// owner has it, the request joins the queue and learns the holder and its PTTL. If the lock is
// free and no live waiter is in front, the script writes the counter and then SET PX. Both
// need memory, so an out-of-memory error comes before any write.
//
// # Lingering leases
//
// A lease that may linger has the name of its process's inbox in the lock's value, behind the notes. A request that
// finds it in the way publishes its owner there (want in line.lua), and so does a forced
// release. Only the answer "held" looks for that name, so a request for a free key pays
// nothing. The process keeps its subscription from the first such request on, and sends itself
// a message per second as if it waited. When the subscription is made anew, its channel has
// another name, and the store says that messages may have been missed.
//
// # Memory
//
// Redis refuses a command for lack of memory only as long as its script has not written. So a
// script that should be refused begins with the write that needs memory, and one that must get
// through begins with a write that needs none. Begin asks first whether there is memory: the
// grant of a lock that was passed on needs none, but the record of the work does. Complete
// asks, deletes the lock, and then writes what there is room for: the record, or the record
// without its result. In a group commit the question comes before the first request, because
// after any write its answer is "yes".
//
// # Release
//
// Passes the key to the next live waiter and publishes to that process's own inbox: one grant,
// one wake-up, no herd. On a single server, PUBSUB NUMSUB says whether anybody listens, so a
// killed process is skipped at once. A lock that was passed on has a short claim time. A
// waiter that died unnoticed costs the others that much and no more. A set that waits also
// keeps the claims before that key. If it has died, it blocks those for up to its TTL. A
// server writes its answer to the releaser before the message to the waiter. So the release of
// a lease that others wait for leaves behind a PING in the same write, which turns the order
// round (write in send/ways.go).
//
// # Steps
//
// While a script runs, the server does nothing else. So one request admits at most 64 waiters,
// and looks at no more than 256. Requests that leave together share 63 of the 64. The first
// waiter that is left over gets a message and asks; its request is the next step. If that
// waiter is dead, the next step is the request of any other waiter, which asks at least every
// third of its waiter lease, or the release of a holder. Readers that are left over belong to
// the phase that has begun: the script notes the place in the queues up to which they do,
// beside the holders. So they go before a writer that waits, and a reader that comes later
// does not.
//
// # A waiter's entry
//
// It is written and read in one place, entry.lua. During a rolling upgrade processes of two releases serve
// each other's waiters. So the fields of the first release keep their meaning and their places
// in every later one, which adds words in front of the last. An entry that cannot be read all
// the same keeps its place until it expires, but is passed over. Its owner looks for itself,
// with scripts that can read it, and may starve on a hot key.
//
// # Scripts of their own
//
// A plain request that leaves without others has a small script: the commands for a free key
// come first, and the functions of the slow path stand behind them. Lua makes a function each
// time that it gets to one, so a plain request does not pay for those it does not need: 5 us
// on the server instead of 25. While a slot moves, the server is told of the lock and the
// counter only, and cannot tell from them that the queue is elsewhere. A command of the script
// finds that out before anything is written, and this counts as TRYAGAIN.
//
// # Retries
//
// A client library that repeats a release after a lost reply finds the key gone. The release
// script has an argument that counts how often the call was sent. "Not yours" after more than
// one sending counts as released, unless the lease's time was over by then: the first sending
// may never have arrived, and another holder may have had the key. The engine then returns
// ErrOutcomeUnknown.
package script
