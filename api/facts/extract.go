// Writes schema-1.37.tsv from checkouts of kubernetes/{api,apimachinery,apiextensions-apiserver,kube-aggregator}
// that lie side by side in one folder: `go run extract.go FOLDER > schema-1.37.tsv`. README.md explains the columns.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strings"
)

type pkg struct {
	path   string // Go import path
	schema string // "io.k8s.api.core.v1"
	files  []*ast.File
	types  map[string]*ast.TypeSpec
	docs   map[string]string
	consts map[string]string
	group  string
	served bool
}

var pkgs = map[string]*pkg{}

var roots = []struct{ dir, importPath, schema string }{
	{"api", "k8s.io/api", "io.k8s.api"},
	{"apimachinery/pkg", "k8s.io/apimachinery/pkg", "io.k8s.apimachinery.pkg"},
	{"apiextensions-apiserver/pkg/apis", "k8s.io/apiextensions-apiserver/pkg/apis", "io.k8s.apiextensions-apiserver.pkg.apis"},
	{"kube-aggregator/pkg/apis", "k8s.io/kube-aggregator/pkg/apis", "io.k8s.kube-aggregator.pkg.apis"},
}

// Types whose JSON form is not that of a struct: the codec knows them by these words.
var special = map[string]string{
	"io.k8s.apimachinery.pkg.api.resource.Quantity":   "quantity",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":       "time",
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":  "microtime",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Duration":   "duration",
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":   "raw",
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intorstring",
	"io.k8s.apimachinery.pkg.runtime.RawExtension":    "object",
	"io.k8s.apimachinery.pkg.runtime.Unknown":         "object",
}

func specialOf(name string) string {
	if s, ok := special[name]; ok {
		return s
	}
	if strings.HasPrefix(name, "io.k8s.apiextensions-apiserver.") {
		switch name[strings.LastIndex(name, ".")+1:] {
		case "JSON":
			return "raw"
		case "JSONSchemaPropsOrArray":
			return "schemaorarray"
		case "JSONSchemaPropsOrBool":
			return "schemaorbool"
		case "JSONSchemaPropsOrStringArray":
			return "schemaorstrings"
		}
	}
	return ""
}

func load(root string) {
	for _, r := range roots {
		base := filepath.Join(root, r.dir)
		filepath.Walk(base, func(path string, info os.FileInfo, err error) error {
			if err != nil || !info.IsDir() || strings.Contains(path, "testdata") || strings.Contains(path, "testapigroup") {
				return nil
			}
			rel, _ := filepath.Rel(base, path)
			if rel == "." {
				return nil
			}
			p := &pkg{path: r.importPath + "/" + rel, schema: r.schema + "." + strings.ReplaceAll(rel, "/", "."),
				types: map[string]*ast.TypeSpec{}, docs: map[string]string{}, consts: map[string]string{}}
			names, _ := filepath.Glob(filepath.Join(path, "*.go"))
			for _, n := range names {
				if strings.HasSuffix(n, "_test.go") || strings.Contains(n, "zz_generated") || strings.Contains(n, "generated.pb") {
					continue
				}
				f, err := parser.ParseFile(token.NewFileSet(), n, nil, parser.ParseComments)
				if err != nil {
					panic(err)
				}
				p.files = append(p.files, f)
				for _, d := range f.Decls {
					g, ok := d.(*ast.GenDecl)
					if !ok {
						continue
					}
					for _, s := range g.Specs {
						switch s := s.(type) {
						case *ast.TypeSpec:
							p.types[s.Name.Name] = s
							p.docs[s.Name.Name] = docText(g.Doc, s.Doc)
						case *ast.ValueSpec:
							if len(s.Values) == 1 {
								if l, ok := s.Values[0].(*ast.BasicLit); ok {
									p.consts[s.Names[0].Name] = l.Value
								}
							}
							if s.Names[0].Name == "GroupName" && len(s.Values) == 1 {
								if l, ok := s.Values[0].(*ast.BasicLit); ok {
									p.group, p.served = strings.Trim(l.Value, `"`), true
								}
							}
						}
					}
				}
			}
			if len(p.files) > 0 {
				pkgs[p.path] = p
			}
			return nil
		})
	}
	// Group names that are a constant of the parent package.
	for _, p := range pkgs {
		if parent := pkgs[filepath.Dir(p.path)]; !p.served && parent != nil && parent.served {
			p.group, p.served = parent.group, true
		}
	}
}

func docText(gs ...*ast.CommentGroup) string {
	var b strings.Builder
	for _, g := range gs {
		if g != nil {
			for _, c := range g.List {
				b.WriteString(strings.TrimSpace(strings.TrimPrefix(c.Text, "//")) + "\n")
			}
		}
	}
	return b.String()
}

func marker(doc, name string) (string, bool) {
	m := regexp.MustCompile(`(?m)^\+`+name+`=(.*)$`).FindAllStringSubmatch(doc, -1)
	if m == nil {
		return "", false
	}
	var vs []string
	for _, v := range m {
		vs = append(vs, strings.TrimSpace(v[1]))
	}
	return strings.Join(vs, ","), true
}

type resolved struct {
	text   string // column "type"
	goName string // as Go's reflection prints it
	inner  string // full message name, if a message
	doc    string // markers of the named type
}

func fileImports(f *ast.File) map[string]string {
	m := map[string]string{}
	for _, i := range f.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		n := filepath.Base(p)
		if i.Name != nil {
			n = i.Name.Name
		}
		m[n] = p
	}
	return m
}

func (p *pkg) fileOf(name string) *ast.File {
	for _, f := range p.files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					if t, ok := s.(*ast.TypeSpec); ok && t.Name.Name == name {
						return f
					}
				}
			}
		}
	}
	return nil
}

func resolve(p *pkg, f *ast.File, e ast.Expr) resolved {
	switch e := e.(type) {
	case *ast.StarExpr:
		return resolve(p, f, e.X)
	case *ast.ArrayType:
		r := resolve(p, f, e.Elt)
		if r.text == "byte" {
			return resolved{text: "bytes", goName: "[]uint8"}
		}
		star := ""
		if _, ok := e.Elt.(*ast.StarExpr); ok {
			star = "*"
		}
		return resolved{text: "[]" + r.text, goName: "[]" + star + r.goName, inner: r.inner}
	case *ast.MapType:
		r := resolve(p, f, e.Value)
		k := resolve(p, f, e.Key)
		return resolved{text: "{}" + r.text, goName: "map[" + k.goName + "]" + r.goName, inner: r.inner}
	case *ast.Ident:
		switch e.Name {
		case "string", "bool", "int32", "int64", "byte":
			return resolved{text: e.Name, goName: e.Name}
		case "int":
			return resolved{text: "int64", goName: "int"}
		case "uint8":
			return resolved{text: "int32", goName: "uint8"}
		case "float64":
			return resolved{text: "double", goName: e.Name}
		}
		return named(p, e.Name)
	case *ast.SelectorExpr:
		path := fileImports(f)[e.X.(*ast.Ident).Name]
		q := pkgs[path]
		if q == nil {
			return resolved{text: "string", goName: e.X.(*ast.Ident).Name + "." + e.Sel.Name} // types.UID and the like
		}
		return named(q, e.Sel.Name)
	}
	panic(fmt.Sprintf("%T", e))
}

func named(p *pkg, name string) resolved {
	full := p.schema + "." + name
	goName := filepath.Base(p.path) + "." + name
	if s := specialOf(full); s != "" {
		inner := ""
		if strings.HasPrefix(s, "schemaor") {
			inner = p.schema + ".JSONSchemaProps"
			s += ":" + inner
		}
		return resolved{text: s, goName: goName, inner: inner}
	}
	t := p.types[name]
	if t == nil {
		panic("unknown type " + full)
	}
	switch u := t.Type.(type) {
	case *ast.StructType:
		return resolved{text: full, goName: goName, inner: full, doc: p.docs[name]}
	case *ast.ArrayType:
		r := resolve(p, p.fileOf(name), u)
		if r.text == "[]string" {
			return resolved{text: "strings", goName: goName, doc: p.docs[name]}
		}
		return resolved{text: r.text, goName: goName, inner: r.inner, doc: p.docs[name]}
	default:
		r := resolve(p, p.fileOf(name), u)
		r.goName = goName
		r.doc = p.docs[name] + r.doc
		if r.inner != "" && !strings.HasPrefix(r.text, "{}") {
			r.text, r.inner = full, full // `type List metav1.List`: a message of its own
		}
		return r
	}
}

func structOf(p *pkg, name string) (*pkg, *ast.File, *ast.StructType) {
	switch u := p.types[name].Type.(type) {
	case *ast.StructType:
		return p, p.fileOf(name), u
	case *ast.Ident:
		if p.types[u.Name] != nil {
			return structOf(p, u.Name)
		}
	case *ast.SelectorExpr:
		if q := pkgs[fileImports(p.fileOf(name))[u.X.(*ast.Ident).Name]]; q != nil && q.types[u.Sel.Name] != nil {
			return structOf(q, u.Sel.Name)
		}
	}
	return nil, nil, nil
}

func short(text, schema string) string {
	return strings.ReplaceAll(text, schema+".", ".")
}

func emitField(p, at *pkg, f *ast.File, fd *ast.Field, out *[]string, typeFlags *string) {
	tag := reflect.StructTag("")
	if fd.Tag != nil {
		tag = reflect.StructTag(strings.Trim(fd.Tag.Value, "`"))
	}
	if pb := tag.Get("protobuf"); (pb == "" || pb == "-") && len(fd.Names) > 0 {
		return
	}
	r := resolve(at, f, fd.Type)
	if len(fd.Names) == 0 && strings.HasSuffix(r.text, "meta.v1.TypeMeta") {
		*typeFlags += "m"
		return
	}
	js := strings.Split(tag.Get("json"), ",")
	number, protoName := "0", ""
	if pb := tag.Get("protobuf"); pb != "" && pb != "-" {
		parts := strings.Split(pb, ",")
		number = parts[1]
		for _, x := range parts {
			if strings.HasPrefix(x, "name=") {
				protoName = x[5:]
			}
		}
	} else {
		return
	}
	flags := ""
	for _, o := range js[1:] {
		switch o {
		case "omitempty":
			flags += "o"
		case "omitzero":
			flags += "z"
		}
	}
	if _, ok := fd.Type.(*ast.StarExpr); ok {
		flags += "p"
	}
	name := js[0]
	if name == "-" {
		return
	}
	if len(fd.Names) == 0 && name == "" {
		flags += "i"
		if name = protoName; name == "" {
			name = r.text[strings.LastIndex(r.text, ".")+1:]
		}
	}
	doc := docText(fd.Doc)
	all := doc + r.doc
	list := ""
	lt, _ := marker(all, "listType")
	switch lt {
	case "atomic":
		list = "a"
	case "set":
		list = "s"
	case "map":
		keys, _ := marker(all, "listMapKey")
		list = "m:" + keys
	}
	if mt, _ := marker(all, "mapType"); mt == "atomic" {
		list = "a"
	}
	if st, _ := marker(doc, "structType"); st == "atomic" {
		list = "a"
	}
	patch := tag.Get("patchStrategy")
	if k := tag.Get("patchMergeKey"); k != "" {
		patch += ":" + k
	}
	def, _ := marker(doc, "default")
	if c := strings.TrimSuffix(strings.TrimPrefix(def, "ref("), ")"); at.consts[c] != "" {
		def = at.consts[c]
	}
	goName := r.goName
	if goName == r.text || strings.HasSuffix(r.text, "."+goName) || (r.inner != "" && !strings.HasPrefix(r.text, "{}") && strings.TrimLeft(r.text, "[]") == r.inner && strings.HasSuffix(r.inner, strings.TrimLeft(goName, "[]"))) {
		goName = ""
	}
	if r.text == "quantity" || r.text == "time" || r.text == "microtime" || r.text == "{}string" && goName == "map[string]string" || r.text == "object" || r.text == "raw" || r.text == "bytes" || r.text == "intorstring" {
		goName = ""
	}
	row := strings.Join([]string{name, number, short(r.text, p.schema), flags, list, patch, def, goName}, "\t")
	*out = append(*out, strings.TrimRight(row, "\t"))
}

func main() {
	load(os.Args[1])
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	var ordered []*pkg
	for _, p := range pkgs {
		ordered = append(ordered, p)
	}
	sort.Slice(ordered, func(i, j int) bool { return ordered[i].schema < ordered[j].schema })
	for _, p := range ordered {
		if !regexp.MustCompile(`/v[0-9][a-z0-9]*$`).MatchString(p.path) {
			continue
		}
		var names []string
		for n := range p.types {
			names = append(names, n)
		}
		sort.Strings(names)
		header := false
		for _, n := range names {
			if specialOf(p.schema+"."+n) != "" || !ast.IsExported(n) {
				continue
			}
			at, f, st := structOf(p, n)
			if st == nil {
				continue
			}
			var rows []string
			flags := ""
			for _, fd := range st.Fields.List {
				emitField(p, at, f, fd, &rows, &flags)
			}
			if len(rows) == 0 && len(st.Fields.List) > 0 {
				continue
			}
			if t, _ := marker(p.docs[n], "structType"); t == "atomic" {
				flags += "a"
			}
			if !header {
				gv := "-"
				if p.served {
					gv = filepath.Base(p.path)
					if p.group != "" {
						gv = p.group + "/" + gv
					}
				}
				fmt.Fprintf(w, "=%s\t%s\n", p.schema, gv)
				header = true
			}
			fmt.Fprintln(w, strings.TrimRight("+"+n+"\t"+flags, "\t"))
			for _, r := range rows {
				fmt.Fprintln(w, r)
			}
		}
	}
}
