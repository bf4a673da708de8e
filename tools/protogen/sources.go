package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// protoRoot returns the directory at which the import name of file starts.
func protoRoot(file string) (string, error) {
	module := ""
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "proto" {
			return dir, nil
		}
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil && module == "" {
			module = dir
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if dir == "." || dir == filepath.Dir(dir) {
			break
		}
	}
	if module == "" {
		return "", fmt.Errorf("%s: no directory above it is called proto or has a go.mod", file)
	}
	return module, nil
}

// compile returns what protoc would send to a plugin for a file below root. It may import files of all roots.
func compile(ctx context.Context, root, file string, roots []string) (*pluginpb.CodeGeneratorRequest, error) {
	name, err := filepath.Rel(root, file)
	if err != nil {
		return nil, err
	}
	name = filepath.ToSlash(name)
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: append([]string{root}, roots...)}),
		// The generated code gets its comments from the source info.
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      appendWithImports(nil, files[0], make(map[string]bool)),
	}, nil
}

// appendWithImports appends what file imports, then file: a plugin wants every
// file to come after those it depends on.
func appendWithImports(
	list []*descriptorpb.FileDescriptorProto, file protoreflect.FileDescriptor, seen map[string]bool,
) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return list
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		list = appendWithImports(list, file.Imports().Get(i).FileDescriptor, seen)
	}
	return append(list, protoutil.ProtoFromFileDescriptor(file))
}
