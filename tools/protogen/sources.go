package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// sources are the .proto files to generate code for.
type sources struct {
	names []string          // import names, sorted
	roots []string          // where import names start, sorted
	dirs  map[string]string // directory of an import name -> directory on disk
}

func newSources(files []string) (*sources, error) {
	s := &sources{dirs: make(map[string]string)}
	for _, file := range files {
		root, err := protoRoot(file)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		name := filepath.ToSlash(rel)
		dir, onDisk := path.Dir(name), filepath.Dir(file)
		// If two roots had the same folder below them, import names and the place of the
		// generated code would be ambiguous.
		if other, ok := s.dirs[dir]; ok && other != onDisk {
			return nil, fmt.Errorf("%s and %s are both %q in imports", other, onDisk, dir)
		}
		s.dirs[dir] = onDisk
		s.names = append(s.names, name)
		if !slices.Contains(s.roots, root) {
			s.roots = append(s.roots, root)
		}
	}
	slices.Sort(s.names)
	slices.Sort(s.roots)
	return s, nil
}

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

// path returns the path of the generated file with this import name.
func (s *sources) path(name string) (string, error) {
	dir, ok := s.dirs[path.Dir(name)]
	if !ok {
		return "", fmt.Errorf("a plugin answered a file outside of the given directories: %s", name)
	}
	return filepath.Join(dir, path.Base(name)), nil
}

// compile returns what protoc would send to a plugin.
func (s *sources) compile(ctx context.Context) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: s.roots}),
		// The generated code gets its comments from the source info.
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, s.names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: s.names,
		Parameter:      proto.String("paths=source_relative"),
	}
	seen := make(map[string]bool)
	for _, file := range files {
		request.ProtoFile = appendWithImports(request.ProtoFile, file, seen)
	}
	return request, nil
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
