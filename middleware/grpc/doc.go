// Package lockgrpc has gRPC methods take turns by key, or carry each message
// out once, across every process that shares the engine's store.
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
// A [Rule] is for one method. Methods without a rule pass untouched. [New]
// checks all rules against the services that are linked into the program, so
// that a name which does not exist stops the server from starting and not a
// request. Install both interceptors: a rule for a stream does nothing in the
// unary one. [Interceptor.Coverage] lists the methods of a server with their
// rules, for the log and for a test that wants none forgotten;
// [Interceptor.Check] finds rules that do nothing. A handler that must not run
// unlocked, whatever becomes of the set-up, asks core.AssertHeld(ctx, core.Exclusive(key)).
//
// # Keys
//
// A template is text with placeholders; package keytmpl has the syntax. What a
// placeholder names is
//
//   - {user_id}, {group.id}: a field of the request, by the name in the .proto
//     file, also inside of messages;
//   - {members[*].id}, {ids[*]}: a field of each element of a list, or each
//     element. One lock per element, all taken together;
//   - {metadata.x-tenant}: incoming metadata of that name, upper or lower case.
//     A name that comes with several values is refused, as nobody knows which
//     of them the services behind will believe. Should the request have a field
//     metadata.tenant, then {metadata.tenant} could mean either and is an error.
//
// How a value becomes text is the same in every build and easy to repeat in
// other languages:
//
//	string    as it is, escaped by keytmpl
//	bytes     hex, lower case; so is metadata whose name ends in -bin
//	integers  decimal
//	enum      its number: names can be changed, and have aliases
//	bool      true or false
//
// Text is taken as it came: "Ann" and "ann" are two keys, and so is "é" typed as one
// character or as two. Filters make one of them, in order and before a digest:
// {user_name|lower}, {metadata.x-id|int}; see keytmpl. Once compares content byte by
// byte all the same: a repeat in another spelling is refused, unless
// core.WithoutFingerprint is among the options.
//
// With |hash it is the SHA-256 of the string, or of the bytes themselves. A
// float, a message and a map make no key; a key function does ([SerializeBy],
// [OnceBy]).
//
// A value that is missing is the caller's error, INVALID_ARGUMENT: a field
// that is not set, an empty string, an empty list. So is 0, or the enum value 0,
// in a plain proto3 field, which can't be told from not set; declare the field
// optional to lock on 0. Elements of a list are always set. A plain bool that
// is not set is false.
//
// # Annotations
//
// What is locked can stand in the .proto file, next to the method, where also
// those who call it see it:
//
//	import "keyturn/v1/lock.proto";
//
//	service Groups {
//	  rpc Join(JoinRequest) returns (JoinResponse) {
//	    option (keyturn.v1.lock) = {key: "group:{group_id}", name: "membership"};
//	  }
//	}
//
// [FromAnnotations] makes rules of it. How long, how to wait and what to do in an
// outage stay in Go: [Configure] gives a policy to the rules of a name, and a rule
// in Go for the same method takes the annotation's place. The options are read
// when the server starts, and so are the templates in them.
//
// # Serialize
//
// The lock is held until the handler returns: a client that cancels does not
// let the next one in, because the handler may still be writing. The handler's
// context is the lease's. It ends when the lease is lost, and has the fencing
// token for what the handler writes to:
//
//	lease, _ := core.LeaseFrom(ctx)
//	lease.Token()
//
// After a loss the call ends with ABORTED, even if the handler succeeded: what
// it did may have overlapped with another. The handler's own errors pass
// unchanged. A panic frees the lock and goes on panicking.
//
// # Streams
//
// A stream takes turns as a whole. Its key comes from metadata or, if only one
// side streams, from the first message of the client. That one is received
// before the handler is called; see [Interceptor.Stream] for what that means.
// When the lease is lost, a RecvMsg that waits for the client returns, and
// SendMsg sends no more.
//
// Or each message takes its own turn: [SerializeMessages], for streams that stay
// open and bring messages for many keys. A message's turn ends when the handler
// asks for the next one; stream.Context() is then each message's own.
//
// # Slow clients
//
// The client of a unary method keeps no key by being slow: its request has come
// before the interceptor runs, and the response is sent after the lock was
// released. The first message of a stream is received before the key is asked for,
// too.
//
// A stream under [Serialize] is different: a client that sends nothing more, or
// reads nothing, keeps the key until the call ends. gRPC has no deadline for one
// message, so core.WithMaxHold bounds it, 10 minutes by default, and the call's own
// deadline. After the max hold the key frees itself within the TTL, though the
// handler may still be stuck in Send. Give streams of strangers a short max hold,
// or use [SerializeMessages]: there no key is held while the handler waits for a
// message, only while it works on one and sends because of it.
//
// # Once
//
// The first call that succeeds puts its response on record; repeats get the
// same message, with the header "keyturn-replayed: true". A response larger than
// core.WithResultLimit (64 KiB by default) reaches the first caller and is not kept:
// repeats get ALREADY_EXISTS. Header and trailer of
// the first call are not recorded, nor are errors. The record is a
// google.protobuf.Any, and one of another type than the method's response is
// an error. Repeats are compared by the method and the message in its
// deterministic encoding. That is the same in every replica of one build;
// another version of the .proto file or of the protobuf library may encode the
// same content in another way. Where a repeat can meet that, or where content
// differs from one delivery to the next without meaning anything, the rule says
// core.WithoutFingerprint.
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
//	store down                           UNAVAILABLE          STORE_UNAVAILABLE     *
//	engine closed                        UNAVAILABLE          STOPPING              *
//	recorded or not, not known (Once)    UNAVAILABLE          OUTCOME_UNKNOWN       *
//	lease lost while the handler ran     ABORTED              LEASE_LOST
//	anything else                        INTERNAL             INTERNAL
//	caller's own deadline                DEADLINE_EXCEEDED
//	caller's own cancel                  CANCELLED
//
// The reason is that of an ErrorInfo with the domain "keyturn". With a star
// there is a RetryInfo too: when to try again. INVALID_ARGUMENT has a BadRequest
// that names the field, but not its value. Nothing tells the caller who holds
// the lock, or its key.
//
// Inside of the server the same error matches core's sentinels: an interceptor
// that logs can use errors.Is, and errors.As for a *core.HeldError with the
// holder. Its text is the one that the client gets.
//
// # Clients
//
// The ErrorInfo of a refused call names the method, in its metadata under
// [MethodKey]. By that a client tells a call that did not get its turn, and may
// be sent again, from one whose handler ran and handed on what another service
// refused it. (But for a handler that calls its own method on another server.)
// [Retry] sends again what [RetryAfter] calls safe, after the time in the
// RetryInfo and within the caller's deadline.
//
// # Calls to other services
//
// A handler that calls another service, or its own, waits for itself if the method there
// takes the same key. Package grpccarry (experimental) lets the method run under the caller's
// lease instead. A call that asks for a key that its caller has in another mode, or as Once,
// fails with INTERNAL: it could never get its turn.
//
// # Order of interceptors
//
// Outermost comes what has to see everything: recovery, logging, metrics; the
// OpenTelemetry stats handler is outside of all interceptors in any case, so
// that waiting is part of the call's span, and what waits and holds are child
// spans of it (package tracing). Then authentication, before the
// lock: who may not call shall not wait or have others wait. Metadata is what
// the client says it is, so an identity that goes into a key is put there by
// the authentication, with metadata.NewIncomingContext. Then the lock; and
// inside of it what belongs to the work, such as a transaction, which has to
// commit before the lock is free.
package lockgrpc
