// Package lockconnect (not connect, which its users import, too) applies the rules of package
// lockgrpc to handlers of connectrpc.com/connect, whatever protocol their clients speak (Connect,
// gRPC, gRPC-Web).
//
//	locks, err := lockconnect.New(eng,
//		lockgrpc.Serialize(imv1connect.UsersSetStatusProcedure, "user:status:{user_id}", core.WithMaxWait(2*time.Second)),
//	)
//	...
//	mux.Handle(imv1connect.NewUsersHandler(users, connect.WithInterceptors(locks)))
//
// Rules, templates, options and answers are those of lockgrpc; {metadata.name} is a header of the
// request. A refused call gets a *connect.Error with the code of lockgrpc's table, and with the
// same details: an ErrorInfo with the reason, and a RetryInfo. Inside the server the error matches
// core's sentinels. A *connect.Error of a precheck or of a key function (lockgrpc.SerializeKeys) keeps its code.
// [StatusOf] is for handlers that call the engine themselves. A response from the record of an earlier call has the header
// lockgrpc.ReplayedHeader.
//
// The handler's context is the lease's (core.LeaseFrom). The exception is a rule of
// lockgrpc.SerializeMessages: each message is received in its turn, but connect gives a handler only one
// context, which has no lease.
//
// On clients, the interceptor does nothing. [Interceptor.Check] finds rules of misspelt methods.
//
// Put it inside of interceptors that authenticate, log or recover, and outside of those that belong
// to the work; connect calls the first one given first. This module requires grpc's, whose types the
// rules are made of.
package lockconnect
