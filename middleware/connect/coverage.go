package lockconnect

import (
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/keyturn/keyturn/core/coverage"
)

// Coverage lists every method of the services, sorted by name, with the rules that it has or without
// one. The services are named as in imv1connect.UsersName of generated code, because Connect's handlers
// cannot be listed. Log the list at start with coverage.Log. In a test, coverage.Uncovered fails if
// somebody adds a method and forgets its rule. A service that this program does not know has no methods;
// [Interceptor.Check] finds it.
func (i *Interceptor) Coverage(services ...string) []coverage.Target {
	return i.rules.Coverage(served(services))
}

// Check returns an error for each rule whose method is in none of the services, and for each service that
// this program does not know. The services are named as for [Interceptor.Coverage]; whether their handlers
// have the interceptor cannot be seen.
func (i *Interceptor) Check(services ...string) error {
	known := served(services).GetServiceInfo()
	var errs []error
	for _, name := range services {
		if _, found := known[name]; !found {
			errs = append(errs, fmt.Errorf("lockconnect: this program knows no service %q: is its generated package imported?", name))
		}
	}
	return errors.Join(append(errs, i.rules.Check(served(services)))...)
}

// served are the names of services, as a server that serves them.
type served []string

// GetServiceInfo implements lockgrpc.Server. It leaves out services that this program does not know.
func (s served) GetServiceInfo() map[string]grpc.ServiceInfo {
	all := make(map[string]grpc.ServiceInfo)
	for _, name := range s {
		found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name)) // nil: unknown
		service, ok := found.(protoreflect.ServiceDescriptor)
		if !ok {
			continue
		}
		var info grpc.ServiceInfo
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			info.Methods = append(info.Methods, grpc.MethodInfo{
				Name: string(m.Name()), IsClientStream: m.IsStreamingClient(), IsServerStream: m.IsStreamingServer(),
			})
		}
		all[name] = info
	}
	return all
}
