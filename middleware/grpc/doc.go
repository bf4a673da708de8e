// Package lockgrpc (not grpc, which its users import, too) makes gRPC methods take turns by key, or
// process each message once, in all processes that share the engine's store.
//
//	locks, err := lockgrpc.New(eng,
//		lockgrpc.Serialize(imv1.Users_SetStatus_FullMethodName, "user:status:{user_id}"),
//		lockgrpc.Once(imv1.Messages_Send_FullMethodName, "once:send:{metadata.x-user}:{message_id}"),
//	)
//	...
//	grpc.NewServer(
//		grpc.ChainUnaryInterceptor(locks.Unary()),
//		grpc.ChainStreamInterceptor(locks.Stream()),
//	)
//
// A [Rule] is for one method. Methods without a rule are not affected. [New] checks all rules
// against the services that are linked into the program. So a name that does not exist stops
// the start of the server, not a request. Install both interceptors: the unary one does nothing
// for a stream. [Interceptor.Coverage] lists the methods of a server with their rules, for the
// log and for a test that none is missing. [Interceptor.Check] finds rules that do nothing. A
// handler that must never run unlocked can ask core.AssertHeld(ctx, core.Exclusive(key)).
//
// # Keys
//
// A template is text with placeholders; package keytmpl has the syntax. A placeholder names one
// of these:
//
//   - {user_id}, {group.id}: a field of the request, by its name in the .proto file, also inside
//     messages;
//   - {members[*].id}, {ids[*]}: a field of each element of a list, or each element. There is one
//     lock per element, and all are taken together;
//   - {metadata.x-tenant}: incoming metadata with that name, upper or lower case. A name with
//     several values is refused, because nobody knows which of them the services behind use. If
//     the request has a field metadata.tenant, {metadata.tenant} could mean either, and is an
//     error.
//
// Values become text in the same way in every build. Other languages can easily do the same:
//
//	string    as it is, escaped by keytmpl
//	bytes     hex, lower case; so is metadata whose name ends in -bin
//	integers  decimal
//	enum      its number: names can be changed, and have aliases
//	bool      true or false
//
// Text is compared as it is: "Ann" and "ann" are two keys, and so is "é" typed as one character
// or as two. Filters make one spelling, in order and before a digest: {user_name|lower},
// {metadata.x-id|int}; see keytmpl. Once still compares content byte by byte, so a repeat in
// another spelling is refused, unless the options have core.WithoutFingerprint.
//
// With |hash, it is the SHA-256 of the string, or of the bytes themselves. No key can be made
// of a float, a message or a map; use a key function ([SerializeBy], [OnceBy]).
//
// A missing value is the caller's error, INVALID_ARGUMENT: a field that is not set, an empty
// string, an empty list. In a plain proto3 field, 0 and the enum value 0 count as missing,
// because they look the same as not set. Declare the field optional to lock on 0. Elements
// of a list are always set. A plain bool that is not set is false.
//
// # Annotations
//
// The .proto file can say what is locked, next to the method, where its callers see it, too:
//
//	import "keyturn/v1/lock.proto";
//
//	service Groups {
//	  rpc Join(JoinRequest) returns (JoinResponse) {
//	    option (keyturn.v1.lock) = {key: "group:{group_id}", name: "membership"};
//	  }
//	}
//
// [FromAnnotations] makes rules of the options. Go code still says how long, how to wait and
// what to do in an outage: [Configure] gives a policy to the rules with a name. A rule in Go
// for the same method replaces the annotation. The options, and the templates in them, are read
// when the server starts.
//
// # Serialize
//
// The lock is held until the handler returns. A client that cancels does not let the next call
// in, because the handler may still be writing. The handler's context is the lease's. It ends
// if the lease is lost, and has the fencing token for what the handler writes to:
//
//	lease, _ := core.LeaseFrom(ctx)
//	lease.Token()
//
// After a loss the call ends with ABORTED, even if the handler succeeded, because its work may
// have overlapped with another call's. The handler's own errors are returned unchanged. A panic
// frees the lock and goes on.
//
// # Streams
//
// A stream takes turns as a whole. Its key comes from metadata or, if only one side streams,
// from the first message of the client. That message is received before the handler is called;
// see [Interceptor.Stream] for the consequences. After a loss of the lease, a RecvMsg that
// waits for the client returns, and SendMsg sends no more.
//
// Alternatively each message takes its own turn: [SerializeMessages] is for streams that stay
// open and have messages for many keys. A message's turn ends when the handler asks for the
// next one. stream.Context() is then a context of each message.
//
// # Slow clients
//
// A slow client of a unary method keeps no key. Its request has arrived before the interceptor
// runs, and the response is sent after the lock was released. The first message of a stream is
// received before the key is asked for, too.
//
// A stream under [Serialize] is different: a client that sends nothing more, or reads nothing,
// keeps the key until the call ends. gRPC has no deadline for one message. So core.WithMaxHold,
// 10 minutes by default, and the call's own deadline bound it. After the max hold the key is
// free within the TTL, although the handler may still be stuck in Send. Give streams of unknown
// clients a short max hold, or use [SerializeMessages]: then no key is held while the handler
// waits for a message, only while it works on one and sends because of it.
//
// # Once
//
// The response of the first call that succeeds is recorded. Repeats get the same message, with the
// header "keyturn-replayed: true". A response larger than core.WithResultLimit (64 KiB by default)
// reaches the first caller and is not kept; repeats get ALREADY_EXISTS. Header and trailer of the
// first call are not recorded, nor are errors, nor responses that [Rule.Storable] refuses. A response
// is not kept either if the call's context had ended when the handler returned: it may be a part. An
// interceptor in front that sets context.WithoutCancel lets handlers finish, and keeps what they
// answer.
//
// With fence.WithDatabase among the rule's options, the effect and the record are one step, in a
// transaction that the handler gets from its context (fence.TxFrom). So there is exactly one effect,
// although servers crash. An error of the handler rolls it back.
//
// # Who may queue
//
// A rule runs before the handler's own checks. Without a precheck, anybody who may send a request can
// queue for any key, which delays those who may change it, and whoever knows a key of Once gets its
// stored response. So put authentication in front of the rule, and give it a [Rule.Precheck] if not every
// caller may have every key. It runs before the lock is asked for, and again before a replay.
//
// # What a refused call gets
//
//	case                                 code                 reason
//	held, and not to wait                ABORTED              LOCK_HELD             *
//	held for longer than the wait        ABORTED              WAIT_TIMEOUT          *
//	first execution runs still (Once)    ABORTED              either of the two     *
//	too many calls wait                  RESOURCE_EXHAUSTED   TOO_MANY_WAITERS      *
//	same id, other content (Once)        FAILED_PRECONDITION  FINGERPRINT_MISMATCH
//	done, response not kept (Once)       ALREADY_EXISTS       RESULT_NOT_KEPT
//	no key, or an invalid one            INVALID_ARGUMENT     KEY_INVALID
//	the precheck refused                 PERMISSION_DENIED    FORBIDDEN
//	store down                           UNAVAILABLE          STORE_UNAVAILABLE     *
//	engine closed                        UNAVAILABLE          STOPPING              *
//	recorded or not, not known (Once)    UNAVAILABLE          OUTCOME_UNKNOWN       *
//	rolled back in the database (Once)   ABORTED              ROLLED_BACK           *
//	lease lost while the handler ran     ABORTED              LEASE_LOST
//	anything else                        INTERNAL             INTERNAL
//	caller's own deadline                DEADLINE_EXCEEDED
//	caller's own cancel                  CANCELLED
//
// The reason is in an ErrorInfo with the domain "keyturn". An answer with a star also has a
// RetryInfo: when to try again. INVALID_ARGUMENT has a BadRequest that names the field, but not
// its value. Nothing tells the caller who holds the lock, or its key.
//
// [Interceptor.WithErrorHandler] answers in the service's own codes. A handler that calls the engine
// itself (core.Engine.Do) returns [StatusOf] of its error, for the answers of the table.
//
// Inside the server the same error matches core's sentinels. An interceptor that logs can use
// errors.Is, and errors.As for a *core.HeldError with the holder. The error's text is the one
// that the client gets.
//
// # Clients
//
// The ErrorInfo of a refused call names the method, in its metadata under [MethodKey]. So a
// client can tell two cases apart: the call did not get its turn and may be sent again, or its
// handler ran and returned the refusal of another service. (The exception is a handler that
// calls its own method on another server.) [Retry] repeats what [RetryAfter] calls safe, after
// the time in the RetryInfo and within the caller's deadline.
//
// # Calls to other services
//
// A handler that calls another service, or its own, waits for itself if the method there takes
// the same key. Package grpccarry (experimental) lets the method run under the caller's lease
// instead. A call for a key that its caller holds in another mode, or for Once, fails with
// INTERNAL, because it could never get its turn.
//
// # Frameworks that make the server
//
// core.NewLate makes an engine before there is a store. [Interceptor.Registrar] is for services that
// only get a registrar.
//
// # Order of interceptors
//
// Interceptors that have to see everything come outermost: recovery, logging, metrics. The
// OpenTelemetry stats handler is always outside of all interceptors. So the call's span
// includes the wait, and waits and holds are child spans of it (package tracing).
// Authentication comes next, before the lock: a client that may not call must not wait, or make
// others wait. Metadata is what the client sends. If an identity is part of a key, the
// authentication must set it, with metadata.NewIncomingContext. Then comes the lock. Inside of
// it comes what belongs to the work, such as a transaction, which has to commit before the lock
// is free. A timeout comes outside of a rule of Once: the rule cannot see that a context further inside
// has ended, and would keep the part of an answer that a handler returns then.
package lockgrpc
