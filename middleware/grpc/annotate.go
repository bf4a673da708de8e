package lockgrpc

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/keyturn/keyturn/core"
	keyturnv1 "github.com/keyturn/keyturn/proto/keyturn/v1"
)

// FromAnnotations stands for the rules in the services' .proto files: the options
// (keyturn.v1.lock) and (keyturn.v1.once) of their methods. A service is the descriptor that
// generated code registers:
//
//	lockgrpc.New(eng,
//		lockgrpc.FromAnnotations(&imv1.Users_ServiceDesc, &imv1.Groups_ServiceDesc),
//		lockgrpc.Configure("user-status", core.WithMaxWait(2*time.Second)),
//	)
//
// [New] reads the options and checks them like rules in Go. These are errors, too: a service
// without any annotated method, because its generated code may be old; a method with both
// options; and an option with fields from a later version of lock.proto than this program's,
// because a field that is not understood may be the one that matters.
//
// A rule in Go for an annotated method replaces the annotation, with its key and its policy.
// [Configure] gives an annotated rule a policy.
func FromAnnotations(services ...*grpc.ServiceDesc) Rule {
	return Rule{kind: annotations, services: services}
}

// Configure sets the policy of annotated rules. name is the name that rules have in their
// .proto file, or the full name of one method, such as "/im.v1.Users/SetStatus". If both set an
// option, the method's counts.
//
// [New] returns an error if no annotated rule in use has the name.
func Configure(name string, opts ...core.CallOption) Rule {
	return Rule{kind: configuration, method: name, options: opts}
}

// kind says whether a Rule is a rule for a method or stands for something else.
type kind uint8

const (
	forMethod kind = iota
	annotations
	configuration
)

// resolve makes rules for methods of all rules. It adds annotated rules for methods without a
// rule in Go, and gives them their configuration.
func resolve(rules []Rule) ([]Rule, error) {
	var errs []error
	var resolved, annotated []Rule
	inGo := make(map[string]bool)
	policies := make(map[string][]core.CallOption)
	for _, r := range rules {
		switch r.kind {
		case forMethod:
			inGo[r.method] = true
			resolved = append(resolved, r)
		case annotations:
			found, err := readServices(r.services)
			annotated, errs = append(annotated, found...), append(errs, err)
		case configuration:
			if _, ok := policies[r.method]; ok {
				errs = append(errs, fmt.Errorf("configuration of %q: the rule already has one", r.method))
			}
			policies[r.method] = r.options
		}
	}
	annotated = slices.DeleteFunc(annotated, func(r Rule) bool { return inGo[r.method] })
	for _, r := range annotated {
		r.defaults = slices.Concat([]core.CallOption{core.WithRule(r.name)}, r.options, policies[r.name])
		r.options = methodPolicy(r, policies)
		resolved = append(resolved, r)
	}
	return resolved, errors.Join(append(errs, unused(policies, annotated))...)
}

// methodPolicy returns what Configure says of the method, unless the rule has the method's name
// as well.
func methodPolicy(r Rule, policies map[string][]core.CallOption) []core.CallOption {
	if r.name == r.method {
		return nil
	}
	return policies[r.method]
}

// unused returns an error for a policy that belongs to no rule. Otherwise a name that was
// changed on one side would silently set a rule back to the engine's defaults.
func unused(policies map[string][]core.CallOption, annotated []Rule) error {
	known := make([]string, 0, len(annotated))
	for _, r := range annotated {
		known = append(known, r.name, r.method)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("configuration of %q: no annotated rule in use has this name; there are %q", name, known))
		}
	}
	return errors.Join(errs...)
}

// readServices returns the rules of the services' annotated methods.
func readServices(services []*grpc.ServiceDesc) ([]Rule, error) {
	if len(services) == 0 {
		return nil, errors.New("annotations: want at least one service")
	}
	var rules []Rule
	var errs []error
	for _, s := range services {
		if s == nil {
			errs = append(errs, errors.New("annotations: a service descriptor is nil"))
			continue
		}
		found, err := readService(s.ServiceName)
		rules = append(rules, found...)
		if err != nil {
			errs = append(errs, fmt.Errorf("annotations of %q: %w", s.ServiceName, err))
		}
	}
	return rules, errors.Join(errs...)
}

func readService(name string) ([]Rule, error) {
	sd, err := findService(name)
	if err != nil {
		return nil, err
	}
	var rules []Rule
	for i := range sd.Methods().Len() {
		md := sd.Methods().Get(i)
		r, ok := readMethod(md)
		if !ok {
			continue
		}
		r.method = "/" + name + "/" + string(md.Name())
		if r.name == "" {
			r.name = r.method
		}
		rules = append(rules, r)
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("no method has an annotation; is the generated code of %s up to date?", sd.ParentFile().Path())
	}
	return rules, nil
}

// readMethod returns the rule of a method's annotation, if there is one. New reports what is
// wrong with it, together with all other errors.
func readMethod(md protoreflect.MethodDescriptor) (r Rule, ok bool) {
	options, err := optionsOf(md)
	if err != nil {
		return Rule{source: "options", wrong: err}, true
	}
	lock, _ := proto.GetExtension(options, keyturnv1.E_Lock).(*keyturnv1.Lock)
	once, _ := proto.GetExtension(options, keyturnv1.E_Once).(*keyturnv1.Once)
	switch {
	case lock != nil:
		modes, err := modesOf(lock)
		if once != nil {
			err = errors.New("the method has (keyturn.v1.once) as well, but can have only one rule")
		}
		r = Rule{source: "(keyturn.v1.lock)", template: lock.GetKey(), name: lock.GetName(), options: modes, messages: lock.GetEachMessage()}
		r.wrong = errors.Join(err, understood(lock))
	case once != nil:
		r = Rule{source: "(keyturn.v1.once)", template: once.GetKey(), name: once.GetName(), once: true, wrong: understood(once)}
	}
	return r, lock != nil || once != nil
}

// optionsOf parses a method's options again. A descriptor that was made at run time may have
// ours as unknown fields, or as dynamic messages.
func optionsOf(md protoreflect.MethodDescriptor) (*descriptorpb.MethodOptions, error) {
	raw, err := proto.Marshal(md.Options())
	if err != nil {
		return nil, err
	}
	var options descriptorpb.MethodOptions
	return &options, proto.Unmarshal(raw, &options)
}

// modesOf returns the options for the mode in which a method's keys are claimed.
func modesOf(lock *keyturnv1.Lock) (opts []core.CallOption, err error) {
	if lock.GetHierarchy() {
		opts = append(opts, core.WithHierarchy())
	}
	mode, permits := lock.GetMode(), lock.GetPermits()
	if permits != 0 && mode != keyturnv1.Mode_MODE_PERMIT {
		return opts, fmt.Errorf("permits: %d is only for MODE_PERMIT", permits)
	}
	switch mode {
	case keyturnv1.Mode_MODE_UNSPECIFIED, keyturnv1.Mode_MODE_EXCLUSIVE:
		return opts, nil
	case keyturnv1.Mode_MODE_SHARED:
		return append(opts, core.WithShared()), nil
	case keyturnv1.Mode_MODE_PERMIT:
		if permits == 0 || permits > math.MaxInt32 {
			return opts, fmt.Errorf("permits: %d, want 1 to %d", permits, math.MaxInt32)
		}
		return append(opts, core.WithPermits(int(permits))), nil
	default:
		return opts, fmt.Errorf("mode: %d is unknown to this version of keyturn", mode)
	}
}

// understood refuses an annotation with fields that this version does not know.
func understood(annotation proto.Message) error {
	if len(annotation.ProtoReflect().GetUnknown()) > 0 {
		return errors.New("has fields that are unknown to this version of keyturn")
	}
	return nil
}
