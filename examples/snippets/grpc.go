package snippets

import (
	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/examples/im/impb"
	"github.com/keyturn/keyturn/middleware/grpc"
)

// snippet

func newServer(eng *core.Engine, groups impb.GroupsServer) (*grpc.Server, error) {
	locks, err := lockgrpc.New(eng,
		lockgrpc.Serialize(impb.Groups_Join_FullMethodName, "group:{group_id}"),
		lockgrpc.Serialize(impb.Groups_Leave_FullMethodName, "group:{group_id}"),
	)
	if err != nil {
		return nil, err // a method or field that does not exist stops the start, not a request
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(locks.Unary()),
		grpc.ChainStreamInterceptor(locks.Stream()),
	)
	impb.RegisterGroupsServer(server, groups)
	return server, nil
}

// end snippet
