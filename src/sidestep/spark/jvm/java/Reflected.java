package sidestep;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;

/** What is asked of classes that most sessions do not have, and of their parts that are not public. */
final class Reflected {
  /** Of type Method, by class and name. */
  private static final java.util.Map METHODS = java.util.Collections.synchronizedMap(new java.util.WeakHashMap());

  private Reflected() {}

  /** What a method without arguments gives, whoever may call it. */
  static Object call(Object target, String name) {
    try {
      return method(target.getClass(), name).invoke(target);
    } catch (InvocationTargetException problem) {
      Throwable cause = problem.getCause();
      if (cause instanceof RuntimeException) throw (RuntimeException) cause;
      throw new IllegalStateException(cause);
    } catch (IllegalAccessException problem) {
      throw new IllegalStateException(problem);
    }
  }

  /** The same by the first of two names that there is: it was renamed. */
  static Object call(Object target, String name, String formerName) {
    return call(target, has(target.getClass(), name) ? name : formerName);
  }

  static boolean has(Class type, String name) {
    try {
      method(type, name);
      return true;
    } catch (IllegalStateException missing) {
      return false;
    }
  }

  private static Method method(Class type, String name) {
    java.util.Map byName = (java.util.Map) METHODS.get(type);
    if (byName == null) METHODS.put(type, byName = new java.util.concurrent.ConcurrentHashMap());
    Method method = (Method) byName.get(name);
    if (method == null) {
      method = declared(type, name, new Class[0]);
      if (method == null) throw new IllegalStateException("no method " + name + "() in " + type.getName());
      byName.put(name, method);
    }
    return method;
  }

  /** A method of a class or of those it extends or implements; null if there is none. */
  static Method declared(Class type, String name, Class[] arguments) {
    for (Class each = type; each != null; each = each.getSuperclass()) {
      Method[] methods = each.getDeclaredMethods();
      for (int i = 0; i < methods.length; i++) {
        if (!methods[i].getName().equals(name) || methods[i].isBridge()) continue;
        if (!java.util.Arrays.equals(methods[i].getParameterTypes(), arguments)) continue;
        methods[i].setAccessible(true);
        return methods[i];
      }
    }
    java.util.Iterator interfaces = interfaces(type).iterator();
    while (interfaces.hasNext()) {
      try {
        return ((Class) interfaces.next()).getMethod(name, arguments);
      } catch (NoSuchMethodException elsewhere) {
        continue;
      }
    }
    return null;
  }

  /** All public interfaces of a class, in no particular order. */
  static java.util.Set interfaces(Class type) {
    java.util.LinkedHashSet found = new java.util.LinkedHashSet();
    for (Class each = type; each != null; each = each.getSuperclass()) {
      Class[] own = each.getInterfaces();
      for (int i = 0; i < own.length; i++) {
        if (Modifier.isPublic(own[i].getModifiers())) found.add(own[i]);
        found.addAll(interfaces(own[i]));
      }
    }
    return found;
  }

  /** Whether an object is of a class of that name, or of one that extends it. */
  static boolean isA(Object object, String name) {
    for (Class each = object.getClass(); each != null; each = each.getSuperclass()) {
      if (each.getName().equals(name)) return true;
    }
    return false;
  }

  /** Another object of the same class with the same in all of its fields; lists that can grow are copied. */
  static Object copy(Object original) throws IllegalAccessException {
    Object copy = new org.objenesis.ObjenesisStd().newInstance(original.getClass());
    for (Class each = original.getClass(); each != null; each = each.getSuperclass()) {
      Field[] fields = each.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (Modifier.isStatic(fields[i].getModifiers())) continue;
        fields[i].setAccessible(true);
        Object value = fields[i].get(original);
        fields[i].set(copy, value instanceof java.util.ArrayList ? new java.util.ArrayList((java.util.List) value) : value);
      }
    }
    return copy;
  }
}
