// Package keyturnv1 is the Go code of keyturn/v1/lock.proto: the method options
// (keyturn.v1.lock) and (keyturn.v1.once). With them a .proto file says how the calls of a
// method exclude each other. lockgrpc.FromAnnotations makes rules of them.
//
// To use the options in a .proto file, give protoc or buf this repository's directory proto as
// an import path. The import line of the generated Go code then links this package into the
// program.
package keyturnv1
