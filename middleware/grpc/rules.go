package lockgrpc

import (
	"context"
	"fmt"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
)

// Rule says which calls of one method exclude each other, or count as the same. Make one with
// [Serialize], [SerializeMessages], [Once] or their By forms, or read those of the .proto file
// with [FromAnnotations]. [New] checks it; the zero Rule is an error there.
type Rule struct {
	kind     kind
	method   string // its full name; what Configure names
	once     bool
	messages bool // each message of a stream takes its own turn
	template string
	options  []core.CallOption
	precheck func(context.Context, proto.Message) error
	skip     func(context.Context, proto.Message) bool
	storable func(proto.Message) bool
	defaults []core.CallOption // before the options

	// For an annotated method:
	name   string
	source string // the name of the option, for errors
	wrong  error  // what is wrong with it

	services []*grpc.ServiceDesc // for FromAnnotations

	// For a rule with a key function:
	key    func(request) (string, error)
	keys   func(request) ([]string, error)
	nilKey bool
	takes  reflect.Type // the type T of its requests
}

// Precheck returns the rule with a function that refuses calls before they ask for the lock: whoever
// may not do what the handler does must not queue for its key, or get a stored response. It runs
// again before a replay. An error with a status is the call's error, any other one is
// PERMISSION_DENIED. message is nil for a stream whose key does not need the first message, and each of
// the messages with [SerializeMessages]. It must not wait for locks. nil, the default: none.
func (r Rule) Precheck(check func(ctx context.Context, message proto.Message) error) Rule {
	r.precheck = check
	return r
}

// SkipIf returns the rule with a function that returns true for calls that run without it, such as those
// of a webhook that changes nothing. Coverage then calls the rule partial. message is as for
// [Rule.Precheck]. nil, the default: none.
func (r Rule) SkipIf(skip func(ctx context.Context, message proto.Message) bool) Rule {
	r.skip = skip
	return r
}

// Storable returns the rule of [Once] with a function that says whether a response is stored. If it is
// not, the execution counts as failed, and a repeat runs the handler again. It is for services that
// send errors in their responses. By default all are stored.
func (r Rule) Storable(storable func(response proto.Message) bool) Rule {
	r.storable = storable
	return r
}

// Serialize runs calls of method one at a time per key.
//
// method is its full name, "/im.v1.Users/SetStatus": the constant
// Users_SetStatus_FullMethodName of generated code. template makes the key:
// "user:status:{user_id}". A placeholder names a field of the request or, as in
// {metadata.x-tenant}, incoming metadata. The package's documentation says how values become
// text.
//
// Several rules of one method, such as one of the group and one of the user, are one set: all or none,
// in one order, so that calls do not deadlock. Each has its mode. The other options of the set are
// those of the first rule, and the others must not have any. A rule of Once is the only one of its
// method.
//
// opts are the rule's policy, such as core.WithMaxWait, core.WithFailFast, core.WithTTL,
// core.WithMaxHold and core.WithRunUnlocked. For everything else the engine's settings count.
// With core.WithShared or core.WithPermits, calls share the key. With core.WithHierarchy, a "/"
// in the template separates levels, as in "group:{group_id}/member:{user_id}".
func Serialize(method, template string, opts ...core.CallOption) Rule {
	return Rule{method: method, template: template, options: opts}
}

// SerializeBy is [Serialize] with a function that makes the key, for keys that a template
// cannot express. T is the method's request type, such as *imv1.SetStatusRequest; [New] checks
// it.
//
// The result of key is used unchanged; keytmpl.Escape keeps the parts of a composed key apart.
// A key that driver.ValidateKey refuses, such as "", is the caller's error, INVALID_ARGUMENT.
// key must not change the request. It is called from many goroutines.
func SerializeBy[T proto.Message](method string, key func(T) string, opts ...core.CallOption) Rule {
	return byFunc(method, false, key, opts)
}

// SerializeKeys is [SerializeBy] for a function that gets the call's context, which has the user whom
// an outer interceptor has authenticated, and returns all keys of the call: they are taken together,
// as one set. The order does not matter, and a key may be there twice. No key is the caller's error,
// INVALID_ARGUMENT. An error of keys is answered with INTERNAL, or with its own status if it has one, unless it
// matches core.ErrInvalidKey or keytmpl.ErrMissingValue.
func SerializeKeys[T proto.Message](method string, keys func(context.Context, T) ([]string, error), opts ...core.CallOption) Rule {
	return Rule{method: method, options: opts, nilKey: keys == nil, takes: reflect.TypeFor[T](), keys: fromMessage(keys)}
}

// Once runs calls of a unary method with the same key once. While the first runs, the others
// wait for it, or are refused with core.WithFailFast. After it has succeeded they get its
// response, for core.WithRetention. An error is not recorded: the next call runs.
//
// A repeat with other content is refused, unless opts has core.WithoutFingerprint. A response
// of more than core.WithResultLimit bytes is not kept, and repeats get ALREADY_EXISTS; 0 keeps
// none.
//
// The key decides which caller gets which response. Put the caller into it if two callers may
// use the same id, as in "{metadata.x-user}:{message_id}". All rules of an engine, also those of
// other middlewares, share one set of keys: begin those of each with a word of its own.
func Once(method, template string, opts ...core.CallOption) Rule {
	return Rule{method: method, once: true, template: template, options: opts}
}

// OnceKey is [OnceBy] for a function that gets the call's context, which has the user whom an outer
// interceptor has authenticated. An error of key is answered as that of [SerializeKeys].
func OnceKey[T proto.Message](method string, key func(context.Context, T) (string, error), opts ...core.CallOption) Rule {
	return Rule{method: method, once: true, options: opts, nilKey: key == nil, takes: reflect.TypeFor[T](), key: fromMessage(key)}
}

// OnceBy is [Once] with a function that makes the key; see [SerializeBy].
func OnceBy[T proto.Message](method string, key func(T) string, opts ...core.CallOption) Rule {
	return byFunc(method, true, key, opts)
}

func byFunc[T proto.Message](method string, once bool, key func(T) string, opts []core.CallOption) Rule {
	return Rule{
		method: method, once: once, options: opts, nilKey: key == nil, takes: reflect.TypeFor[T](),
		key: fromMessage(func(_ context.Context, message T) (string, error) { return key(message), nil }),
	}
}

// fromMessage turns a typed key function, of one key or of several, into one for any request. [New] compares the types.
// But a codec may use another Go type for the same message, such as a dynamic one.
func fromMessage[T proto.Message, K any](key func(context.Context, T) (K, error)) func(request) (K, error) {
	return func(r request) (none K, err error) {
		message, ok := r.message.Interface().(T)
		if !ok {
			return none, fmt.Errorf("lockgrpc: the request is a %T, the key function takes %v", r.message.Interface(), reflect.TypeFor[T]())
		}
		return key(r.ctx, message)
	}
}
