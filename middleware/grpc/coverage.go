package lockgrpc

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core/coverage"
)

// Server lists the services of a server. *grpc.Server implements it.
type Server interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}

// Coverage lists every method that server serves, sorted by name, with the rule that it has or
// without one. Call it when all services are registered. Log the list at start with
// coverage.Log. In a test, coverage.Uncovered fails if somebody adds a method and forgets its
// rule.
//
// A rule counts as soon as the interceptor that applies it was asked for: [Interceptor.Unary]
// for unary methods, [Interceptor.Stream] for streams. Coverage cannot see whether it was
// passed to this server.
func (i *Interceptor) Coverage(server Server) []coverage.Target {
	streams := served(server)
	var all []coverage.Target
	for _, method := range slices.Sorted(maps.Keys(streams)) {
		c := coverage.Target{Name: method}
		if r, ok := i.rules[method]; ok && i.applies(streams[method]) {
			c.Rules = r.Infos()
		}
		all = append(all, c)
	}
	return all
}

// served returns the methods that a server serves, and for each whether it is a stream.
func served(server Server) map[string]bool {
	streams := make(map[string]bool)
	for service, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			streams["/"+service+"/"+m.Name] = m.IsClientStream || m.IsServerStream
		}
	}
	return streams
}

// Check returns an error for each rule that does nothing on this server: its service is not
// registered, or nobody asked for the interceptor that applies it. Call it when all services
// are registered.
func (i *Interceptor) Check(server Server) error {
	streams := served(server)
	var errs []error
	for _, method := range slices.Sorted(maps.Keys(i.rules)) {
		switch stream, served := streams[method]; {
		case !served:
			errs = append(errs, fmt.Errorf("rule for %q: this server does not serve it", method))
		case !i.applies(stream) && stream:
			errs = append(errs, fmt.Errorf("rule for %q: the method is a stream, but Stream() is not in use", method))
		case !i.applies(stream):
			errs = append(errs, fmt.Errorf("rule for %q: the method is unary, but Unary() is not in use", method))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lockgrpc: %w", err)
	}
	return nil
}

// applies reports whether rules for streams, or for unary methods, have their interceptor.
func (i *Interceptor) applies(stream bool) bool {
	if stream {
		return i.stream.Load()
	}
	return i.unary.Load()
}
